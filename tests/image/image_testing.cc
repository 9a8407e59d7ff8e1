#include "image/image_testing.h"

// clang-format off
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <hwy/targets.h>
// jpeglib.h needs what <cstdio> declares.
#include <jpeglib.h>
#include <webp/encode.h>
// clang-format on

#include "image/codec/png.h"
#include "support/formula.h"

namespace tessera::image::testing {

Image formula_image(const std::string& name, int width, int height) {
  Image image(width, height);
  for (size_t i = 0; i < image.byte_count(); ++i) {
    image.row(0)[i] = static_cast<uint8_t>(tessera::testing::formula_bits(name, i) >> 24);
  }
  return image;
}

Image photo(int width, int height, uint32_t seed) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint8_t* p = image.row(y) + x * 3;
      const bool inside = (x / 23 + y / 17 + static_cast<int>(seed)) % 3 == 0;
      p[0] = static_cast<uint8_t>((x * 255 / width + static_cast<int>(seed) * 31) % 256);
      p[1] = static_cast<uint8_t>(inside ? 220 : y * 255 / height);
      p[2] = static_cast<uint8_t>((x * y + static_cast<int>(seed) * 7) / 19 % 256);
    }
  }
  return image;
}

std::vector<uint8_t> encode_jpeg(const Image& image, const JpegOptions& options) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(image.width());
  info.image_height = static_cast<JDIMENSION>(image.height());
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  if (options.grey) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  if (options.rgb) jpeg_set_colorspace(&info, JCS_RGB);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (!options.grey) {
    info.comp_info[0].h_samp_factor = options.horizontal;
    info.comp_info[0].v_samp_factor = options.vertical;
  }
  info.restart_in_rows = options.restart_rows;
  info.restart_interval = options.restart_mcus;
  info.optimize_coding = options.optimised ? TRUE : FALSE;
  info.arith_code = options.arithmetic ? TRUE : FALSE;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.row(static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::vector<uint8_t> bytes(memory, memory + size);
  std::free(memory);
  return bytes;
}

std::vector<uint8_t> encode_webp(const Image& image, bool lossless) {
  uint8_t* memory = nullptr;
  const int stride = static_cast<int>(image.stride());
  const size_t size = lossless ? WebPEncodeLosslessRGB(image.row(0), image.width(), image.height(), stride, &memory)
                               : WebPEncodeRGB(image.row(0), image.width(), image.height(), stride, 80, &memory);
  std::vector<uint8_t> bytes(memory, memory + size);
  WebPFree(memory);
  return bytes;
}

std::vector<uint8_t> png_bytes(const Image& image) { return encode_png(image.view()); }

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void write_file(const std::filesystem::path& path, const std::vector<uint8_t>& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(stream.good()) << path;
}

std::vector<uint8_t> pixels(const ImageView& view) {
  std::vector<uint8_t> result(static_cast<size_t>(view.width) * static_cast<size_t>(view.height) * 3);
  if (!result.empty()) copy_image(view, false, result.data(), ptrdiff_t{view.width} * 3);
  return result;
}

void on_every_target(const std::function<void()>& body) {
  for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "tessera-test-XXXXXX").string();
  if (!mkdtemp(name.data())) std::abort();
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tessera::image::testing
