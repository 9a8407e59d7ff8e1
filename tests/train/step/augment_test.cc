// Mixing and erasing on the device, against timm's on the same draws.

#include "train/step/augment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/ops.h"
#include "ir/random.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::train {
namespace {

using testing::f32_array;
using testing::HostArray;

constexpr int64_t kRows = 6, kHeight = 9, kWidth = 12, kClasses = 5, kPixels = kHeight * kWidth * 3;
const Dims kImages = {kRows, kHeight, kWidth, 3};

const testing::ReferenceFile& references() {
  static const auto file = testing::read_references(testing::source_path("tests/references/mixup.safetensors"));
  return file;
}

std::vector<float> reference(const std::string& name) {
  const testing::ReferenceTensor& tensor = references().tensors.at(name);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

HostArray images() {
  std::vector<uint8_t> bytes;
  for (int64_t row = 0; row < kRows; ++row) {
    const std::string name = fmt::format("mixup/{}", row);
    for (uint64_t i = 0; i < kPixels; ++i) bytes.push_back(static_cast<uint8_t>(testing::formula_bits(name, i) >> 24));
  }
  return testing::host_array(DType::kU8, kImages, bytes);
}

HostArray labels() {
  std::vector<int32_t> values;
  for (int32_t row = 0; row < kRows; ++row) values.push_back(3 * row % kClasses);
  return testing::i32_array({kRows}, values);
}

// Images, labels, the partners' labels and the shares of the own.
std::vector<HostArray> mix(Augmentation::Mix how, const std::vector<float>& rows) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value x = graph.add_parameter({DType::kU8, kImages}), y = graph.add_parameter({DType::kI32, {kRows}});
  const ir::Value augment = graph.add_parameter({DType::kF32, {kRows, image::kMixedRowValues}});
  const objectives::Batch mixed = mix_rows({how, {}}, {x, y, {}, {}, {}}, augment).batch;
  graph.results = {mixed.images, mixed.labels, mixed.partner_labels, mixed.own_share};
  return testing::CompiledGraph(graph, testing::quick_compile())
      .run({images(), labels(), f32_array({kRows, image::kMixedRowValues}, rows)});
}

TEST(MixRows, EqualsTimm) {
  for (const auto& name : references().config.at("cases")) {
    const auto which = name.get<std::string>();
    const std::vector<float> rows = reference(which + "/rows"), targets = reference(which + "/targets");
    const auto out = mix(Augmentation::Mix::kTimm, rows);
    EXPECT_EQ(out[0].as<uint8_t>(), references().tensors.at(which + "/images").bytes) << which;
    const auto own = out[1].as<int32_t>(), partner = out[2].as<int32_t>();
    const auto share = out[3].floats();
    for (size_t row = 0; row < kRows; ++row) {
      for (int32_t c = 0; c < kClasses; ++c) {
        const auto smooth = [&](int32_t label) { return 0.1 / kClasses + (c == label ? 0.9 : 0); };
        const double lambda = static_cast<double>(share[row]);
        EXPECT_NEAR(lambda * smooth(own[row]) + (1 - lambda) * smooth(partner[row]),
                    static_cast<double>(targets[row * kClasses + static_cast<size_t>(c)]), 1e-6);
      }
    }
  }
}

// a x + (1 - a) roll(x, 1), without rounding.
TEST(MixRows, BigVisionsPartnerIsTheRowBefore) {
  std::vector<float> rows;
  for (int64_t row = 0; row < kRows; ++row) rows.insert(rows.end(), {0.7f, 0.7f, 0, 0, 0, 0});
  const auto out = mix(Augmentation::Mix::kBigVision, rows);
  const auto mixed = out[0].floats();
  const auto before = images().as<uint8_t>();
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kPixels; ++i) {
      const float own = before[row * kPixels + i], partner = before[(row + kRows - 1) % kRows * kPixels + i];
      EXPECT_NEAR(mixed[row * kPixels + i], 0.7f * own + 0.3f * partner, 1e-4);
    }
  }
  EXPECT_EQ(out[2].as<int32_t>(), (std::vector<int32_t>{0, 0, 3, 1, 4, 2}));
}

std::vector<float> erase(const data::Erasing& erasing, const std::vector<float>& boxes) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Dims dims = {kRows, erasing.boxes, data::kEraseValues};
  const ir::Value given = graph.add_parameter({DType::kF32, dims});
  graph.results = {erase_boxes(erasing, ir::constant(1, DType::kF32, kImages), given, ir::make_key(3))};
  return testing::CompiledGraph(graph, testing::quick_compile()).run({f32_array(dims, boxes)})[0].floats();
}

// timm's boxes with a colour for each.
std::vector<float> coloured_boxes(float red) {
  const std::vector<float> sides = reference("erase/boxes");
  std::vector<float> boxes;
  for (size_t i = 0; i < sides.size(); i += 4) {
    boxes.insert(boxes.end(), sides.begin() + static_cast<ptrdiff_t>(i), sides.begin() + static_cast<ptrdiff_t>(i) + 4);
    boxes.insert(boxes.end(), {red, 0, 0});
  }
  return boxes;
}

TEST(EraseBoxes, EqualsTimm) {
  EXPECT_EQ(erase({data::Erasing::Fill::kConst, 2}, coloured_boxes(0)), reference("erase/images"));
}

TEST(EraseBoxes, FillsWithColourOrNoise) {
  const std::vector<float> black = reference("erase/images");
  const std::vector<float> red = erase({data::Erasing::Fill::kRand, 2}, coloured_boxes(-2.5f));
  const std::vector<float> noise = erase({data::Erasing::Fill::kPixel, 2}, coloured_boxes(0));
  double sum = 0, squares = 0, count = 0;
  for (size_t i = 0; i < black.size(); ++i) {
    const bool erased = black[i] == 0;
    EXPECT_EQ(red[i], erased ? (i % 3 == 0 ? -2.5f : 0) : 1);
    EXPECT_TRUE(erased || noise[i] == 1);
    if (erased) sum += static_cast<double>(noise[i]), squares += std::pow(static_cast<double>(noise[i]), 2), ++count;
  }
  EXPECT_GT(count, 100);
  EXPECT_NEAR(sum / count, 0, 4 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 4 * std::sqrt(2 / count));
}

}  // namespace
}  // namespace tessera::train
