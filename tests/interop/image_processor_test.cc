// Hugging Face's image processors as chains of ours, against what its own make of two pictures.

#include "interop/image_processor.h"

#include <gtest/gtest.h>

#include "data/transform/pp.h"
#include "image/codec/pixels_file.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::models {
namespace {

// formula.image of tools/references, as a file that the decoder takes.
std::vector<uint8_t> picture(const std::string& name, int height, int width) {
  std::vector<uint8_t> bytes(static_cast<size_t>(height) * static_cast<size_t>(width) * 3);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(testing::formula_bits(name, i) >> 24);
  std::vector<uint8_t> file(image::pixels_file_size(width, height));
  image::write_pixels_file({bytes.data(), width, height, width * 3}, 1, {}, file.data());
  return file;
}

// [3, height, width], normalised.
std::vector<float> prepared(const data::Pp& chain, const std::vector<uint8_t>& file) {
  data::PpScratch scratch;
  std::vector<uint8_t> bytes(chain.image_bytes());
  const image::SampleError failed = chain.run(file, {}, scratch, bytes.data());
  EXPECT_FALSE(failed) << (failed ? failed->reason : "");
  std::vector<float> pixels;
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = c; i < bytes.size(); i += 3)
      pixels.push_back(static_cast<float>(bytes[i]) * chain.pixel_scale().scale[c] + chain.pixel_scale().offset[c]);
  }
  return pixels;
}

TEST(ForeignProcessor, PreparesPicturesAsHuggingFaceDoes) {
  const testing::ReferenceFile references =
      testing::read_references(testing::source_path("tests/references/hugging_face_processors.safetensors"));
  const std::vector<std::vector<uint8_t>> pictures = {picture("hf/upright", 37, 23), picture("hf/lying", 22, 41)};
  for (const auto& [name, tensor] : references.tensors) {
    SCOPED_TRACE(name);
    // Of this one the file has a part: see hugging_face_processors.py.
    const int64_t down = name == "convnext_large" ? 37 : 1, across = name == "convnext_large" ? 41 : 1;
    const data::Pp chain(interop::timm_pp(interop::parse_processor(references.config.at(name).dump(), name)),
                         data::PpUse::kEval);
    std::vector<float> want(tensor.bytes.size() / sizeof(float));
    std::memcpy(want.data(), tensor.bytes.data(), tensor.bytes.size());
    auto expected = want.begin();
    for (const std::vector<uint8_t>& file : pictures) {
      const std::vector<float> got = prepared(chain, file);
      ASSERT_EQ((chain.height() + down - 1) / down, tensor.shape[2]);
      ASSERT_EQ((chain.width() + across - 1) / across, tensor.shape[3]);
      for (int64_t c = 0; c < 3; ++c) {
        for (int64_t y = 0; y < chain.height(); y += down) {
          for (int64_t x = 0; x < chain.width(); x += across, ++expected) {
            const size_t at = static_cast<size_t>((c * chain.height() + y) * chain.width() + x);
            EXPECT_NEAR(got[at], *expected, 1e-6) << c << ", " << y << ", " << x;
          }
        }
      }
    }
    EXPECT_EQ(expected, want.end());
  }
}

TEST(ForeignProcessor, HasTheDefaultsOfItsKind) {
  const auto chain = [](const char* json) { return interop::timm_pp(interop::parse_processor(json, "dir")); };
  const std::string half = " | normalise(mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5])";
  EXPECT_EQ(chain("{}"), "decode | resize(224, 224, interpolation=bilinear) | central_crop(224, 224)" + half);
  const std::string deit =
      "decode | resize(256, 256, interpolation=bicubic) | central_crop(224, 224, library=tensorflow)" + half;
  EXPECT_EQ(chain(R"({"image_processor_type": "DeiTImageProcessorFast"})"), deit);
  EXPECT_EQ(chain(R"({"feature_extractor_type": "DeiTFeatureExtractor", "size": 256, "crop_size": 224, "resample": 3})"), deit);
  EXPECT_EQ(chain(R"({"image_processor_type": "ConvNextImageProcessor", "size": 224})"),
            "decode | resize_small(256, interpolation=bicubic) | central_crop(224, 224, library=tensorflow)" + half);
}

}  // namespace
}  // namespace tessera::models
