// big_vision's operations and TensorFlow's resizes (tools/references/images/tensorflow_ops.py).
#include <gtest/gtest.h>

#include <set>

#include "data/transform/pp.h"
#include "image/augment_testing.h"
#include "image/image_testing.h"
#include "image/resize/tensorflow_resize.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::image {
namespace {

using testing::augment_picture;
using testing::augment_step;
using testing::formula_image;
using testing::pixels;
using testing::set_picture;

const tessera::testing::ReferenceFile& references() {
  static const auto file =
      tessera::testing::read_references(tessera::testing::source_path("tests/references/tensorflow_ops.safetensors"));
  return file;
}

struct Difference {
  int most = 0;
  size_t bytes = 0;
};

Difference compare(const std::vector<uint8_t>& ours, const std::string& name) {
  const std::vector<uint8_t>& theirs = references().tensors.at(name).bytes;
  EXPECT_EQ(ours.size(), theirs.size());
  Difference difference;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    difference.most = std::max(difference.most, std::abs(ours[i] - theirs[i]));
    difference.bytes += ours[i] != theirs[i];
  }
  return difference;
}

TEST(Tensorflow, EveryOperationEqualsBigVision) {
  std::set<AugmentOp> seen;
  for (const auto& [name, entry] : references().config.at("ops").items()) {
    SCOPED_TRACE(name);
    const AugmentStep step = augment_step(entry);
    Canvas canvas;
    set_picture(canvas, augment_picture(entry.at("picture")));
    apply_tensorflow(step, {128, 128, 128}, canvas);
    const Difference difference = compare(pixels(canvas.image().view()), name);
    EXPECT_EQ(difference.most, 0) << difference.bytes << " bytes";
    seen.insert(step.op);
  }
  EXPECT_EQ(seen.size(), 16u);
}

TEST(Tensorflow, ResizesEqualTensorflow) {
  int compared = 0;
  for (const auto& [name, entry] : references().config.at("resizes").items()) {
    SCOPED_TRACE(name);
    const std::string picture = name.substr(name.rfind('/') + 1);
    const Image image = formula_image("tensorflow/" + picture, entry.at("in")[0], entry.at("in")[1]);
    const int width = entry.at("out")[0], height = entry.at("out")[1];
    const TensorflowMethod method{*parse_tensorflow_filter(entry.at("method").get<std::string>()), entry.at("antialias")};
    std::vector<uint8_t> out(static_cast<size_t>(width * height * 3));
    TensorflowResizer().resize(image.view(), method, false, width, height, out.data());
    const Difference difference = compare(out, name);
    EXPECT_EQ(difference.most, 0) << difference.bytes << " bytes";
    ++compared;
  }
  EXPECT_EQ(compared, 48);
}

}  // namespace
}  // namespace tessera::image
