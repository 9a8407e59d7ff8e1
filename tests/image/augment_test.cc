// The operations of src/image/augment on given parameters, against Pillow, timm and torchvision
// (tools/references/images/augment.py).
#include <gtest/gtest.h>

#include <set>

#include "image/augment/tables.h"
#include "image/augment_testing.h"
#include "image/image_testing.h"
#include "image/ops/affine.h"
#include "image/ops/blur.h"
#include "image/ops/pixels.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::image {
namespace {

using nlohmann::json;
using testing::augment_picture;
using testing::augment_step;
using testing::on_every_target;
using testing::pixels;
using testing::set_picture;

const tessera::testing::ReferenceFile& references() {
  static const auto file =
      tessera::testing::read_references(tessera::testing::source_path("tests/references/augment.safetensors"));
  return file;
}

Rgb reference_fill() { return references().config.at("fill").get<Rgb>(); }

void expect_reference(const Image& image, const std::string& name) {
  const auto& expected = references().tensors.at(name);
  ASSERT_EQ(expected.shape, (std::vector<int64_t>{image.height(), image.width(), 3}));
  EXPECT_EQ(pixels(image.view()), expected.bytes);
}

AugmentPlan sequence(const json& steps) {
  AugmentPlan plan;
  for (const json& step : steps) plan.steps.push_back(augment_step(step));
  return plan;
}

// Every operation at every stored value and interpolation, bit for bit, on every instruction set.
TEST(AugmentPillow, EveryOperationEqualsTimm) {
  std::set<AugmentOp> seen;
  on_every_target([&] {
    Canvas canvas;
    for (const auto& [name, entry] : references().config.at("cases").items()) {
      SCOPED_TRACE(name);
      const AugmentPlan plan = sequence(entry.at("steps"));
      set_picture(canvas, augment_picture(entry.at("picture")));
      run_pillow(plan, reference_fill(), canvas);
      expect_reference(canvas.image(), name);
      seen.insert(plan.steps.at(0).op);
    }
  });
  for (int op = 0; op < static_cast<int>(AugmentOp::kCutout); ++op) {
    EXPECT_TRUE(seen.contains(static_cast<AugmentOp>(op))) << augment_op_name(static_cast<AugmentOp>(op));
  }
  EXPECT_GE(references().config.at("cases").size(), 300u);
}

// All 2^24 colours, by a checksum of the bytes that Pillow made of them.
TEST(AugmentPillow, EveryColorEqualsPillow) {
  constexpr int kSide = 4096;
  const auto& expected = references().config.at("every_color");
  ASSERT_EQ(expected.size(), 5u);
  for (const json& entry : expected) {
    Canvas canvas;
    Image& image = canvas.next(kSide, kSide);
    uint8_t* at = image.row(0);
    for (uint32_t i = 0; i < 1u << 24; ++i, at += 3) {
      at[0] = static_cast<uint8_t>(i >> 16);
      at[1] = static_cast<uint8_t>(i >> 8);
      at[2] = static_cast<uint8_t>(i);
    }
    canvas.swap();
    AugmentStep step{testing::augment_op(entry[0])};
    step.value = entry[1];
    apply_pillow(step, {}, canvas);
    uint64_t sum = 0;
    const ByteSpan bytes = canvas.image().bytes();
    for (uint64_t i = 0, factor = 1; i < bytes.size(); ++i, factor = factor == 65521 ? 1 : factor + 1) sum += bytes[i] * factor;
    EXPECT_EQ(sum, entry[2].get<uint64_t>()) << entry.dump();
  }
}

TEST(AugmentPillow, MixesEqualTimm) {
  for (const auto& [name, entry] : references().config.at("mixes").items()) {
    SCOPED_TRACE(name);
    AugmentPlan plan;
    for (const json& chain : entry.at("chains")) {
      for (const json& step : chain.at("steps")) plan.steps.push_back(augment_step(step));
      plan.chains.push_back({plan.steps.size(), chain.at("weight")});
    }
    plan.mix = entry.at("mix");
    plan.blended = entry.at("blended");
    Canvas canvas;
    set_picture(canvas, augment_picture(entry.at("picture")));
    run_pillow(plan, reference_fill(), canvas);
    expect_reference(canvas.image(), name);
  }
  EXPECT_EQ(references().config.at("mixes").size(), 4u);
}

TEST(AugmentPillow, GreyEqualsTorchvision) {
  on_every_target([] {
    for (const std::string name : {"noise", "photo"}) {
      Image image = augment_picture(name);
      to_grey(image);
      expect_reference(image, "grey/" + name);
    }
  });
}

// torch adds the products up in an order of its own, so a sum at the middle between two levels may go either way.
TEST(AugmentPillow, GaussianBlurIsWithinOneOfTorchvision) {
  on_every_target([] {
    int64_t bytes = 0, different = 0;
    for (const auto& [name, entry] : references().config.at("blurs").items()) {
      SCOPED_TRACE(name);
      Canvas canvas;
      set_picture(canvas, augment_picture(entry.at("picture")));
      gaussian_blur(canvas, entry.at("size"), entry.at("sigma"));
      const std::vector<uint8_t> ours = pixels(canvas.image().view());
      const std::vector<uint8_t>& theirs = references().tensors.at(name).bytes;
      ASSERT_EQ(ours.size(), theirs.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_LE(std::abs(ours[i] - theirs[i]), 1) << i;
        different += ours[i] != theirs[i];
      }
      bytes += static_cast<int64_t>(ours.size());
    }
    EXPECT_GE(bytes, 7000);
    EXPECT_LE(different * 1000, bytes);
  });
}

// A shorter picture after a larger one: nothing of the larger one shows, and nothing is written past the padding.
TEST(AugmentPillow, CanvasIsReused) {
  Canvas canvas;
  set_picture(canvas, augment_picture("noise"));
  run_pillow(sequence(json::parse(R"([{"op": "Rotate", "value": 12}, {"op": "Sharpness", "value": 1.5}])")), {}, canvas);
  const json entry = references().config.at("cases").at("Rotate/3.3/bicubic/noise");
  set_picture(canvas, augment_picture("noise"));
  run_pillow(sequence(entry.at("steps")), reference_fill(), canvas);
  expect_reference(canvas.image(), "Rotate/3.3/bicubic/noise");
}

TEST(AugmentTables, PosterizeOfNoBitsIsBlack) {
  EXPECT_EQ(posterize_table(0)[1][255], 0);
  EXPECT_EQ(posterize_table(-3)[0][255], 0);
  EXPECT_EQ(posterize_table(8)[2][77], 77);
}

TEST(AugmentStep, SaysWhatItDoes) {
  EXPECT_EQ(describe({AugmentOp::kRotate, 27.31, Filter::kBilinear}), "Rotate 27.31 bilinear");
  EXPECT_EQ(describe({AugmentOp::kPosterize, 3}), "Posterize 3");
  EXPECT_EQ(describe({AugmentOp::kCutout, 40, Filter::kNearest, 5, 6}), "Cutout 40 at (5, 6)");
  AugmentPlan plan;
  plan.steps = {{AugmentOp::kInvert}, {AugmentOp::kColor, 0.5}, {AugmentOp::kEqualize}};
  EXPECT_EQ(describe(plan), "Invert, Color 0.5, Equalize");
  plan.chains = {{2, 0.25f}, {3, 0.75f}};
  plan.mix = 0.5f;
  EXPECT_EQ(describe(plan), "0.125 of Invert, Color 0.5 + 0.375 of Equalize");
}

}  // namespace
}  // namespace tessera::image
