#include "data/encode_jpeg.h"

// clang-format off
#include <cstdio>
#include <cstdlib>

// jpeglib.h needs what <cstdio> declares.
#include <jpeglib.h>
// clang-format on

#include "base/error.h"

namespace tessera::data {
namespace {

// All that can go wrong here is the machine's memory.
[[noreturn]] void leave(j_common_ptr) { std::abort(); }
void ignore_message(j_common_ptr, int) {}

}  // namespace

std::vector<uint8_t> encode_jpeg(const ImageView& image, int quality) {
  TESSERA_CHECK(image.width > 0 && image.height > 0 && quality >= 1 && quality <= 100);
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  errors.error_exit = leave;
  errors.emit_message = ignore_message;
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = Image::kChannels;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.dct_method = JDCT_ISLOW;
  info.optimize_coding = TRUE;
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < image.height; ++y) {
    auto* row = const_cast<JSAMPROW>(image.row(y));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::vector<uint8_t> out(bytes, bytes + size);
  std::free(bytes);
  return out;
}

}  // namespace tessera::data
