#include "image/codec/encode_jpeg.h"

// clang-format off
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

// jpeglib.h needs what <cstdio> declares.
#include <jpeglib.h>
// clang-format on

#include <memory>
#include <new>

#include "base/error.h"

namespace tessera::image {
namespace {

struct ErrorManager {
  jpeg_error_mgr base;  // first, so that libjpeg's pointer to it is a pointer to the whole
  std::jmp_buf jump;
};

[[noreturn]] void leave(j_common_ptr info) { std::longjmp(reinterpret_cast<ErrorManager*>(info->err)->jump, 1); }
void ignore_message(j_common_ptr, int) {}

// False when libjpeg gave up. It leaves by longjmp, so nothing here has a destructor.
bool write_jpeg(const ImageView& image, int quality, unsigned char*& bytes, unsigned long& size) {
  jpeg_compress_struct info{};
  ErrorManager errors{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave;
  errors.base.emit_message = ignore_message;
  if (setjmp(errors.jump)) {
    jpeg_destroy_compress(&info);
    return false;
  }
  jpeg_create_compress(&info);
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
  return true;
}

}  // namespace

std::vector<uint8_t> encode_jpeg(const ImageView& image, int quality) {
  TESSERA_CHECK(image.width > 0 && image.height > 0 && quality >= 1 && quality <= 100);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool written = write_jpeg(image, quality, bytes, size);
  const std::unique_ptr<unsigned char, void (*)(void*)> owner(bytes, std::free);
  if (!written) throw std::bad_alloc();  // all that can go wrong with pixels in memory
  return {bytes, bytes + size};
}

}  // namespace tessera::image
