#include "image/codec/png.h"

#include <spng.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <system_error>

#include "base/error.h"

namespace tessera::image {
namespace {

// All that can go wrong with pixels in memory is the memory.
void check(int code) {
  if (code == SPNG_EMEM) throw std::bad_alloc();
  TESSERA_CHECK(code == 0, "{}", spng_strerror(code));
}

}  // namespace

std::vector<uint8_t> encode_png(const ImageView& image) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  if (!context) throw std::bad_alloc();
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = static_cast<uint32_t>(image.width);
  header.height = static_cast<uint32_t>(image.height);
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(context.get(), &header);
  Image rows(image.width, image.height);  // the encoder wants them without gaps
  copy_image(image, false, rows.row(0), rows.stride());
  int code = spng_encode_image(context.get(), rows.row(0), rows.byte_count(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  check(code);
  size_t size = 0;
  const std::unique_ptr<void, void (*)(void*)> bytes(spng_get_png_buffer(context.get(), &size, &code), std::free);
  check(code);
  const auto* begin = static_cast<const uint8_t*>(bytes.get());
  return {begin, begin + size};
}

void write_png(const std::string& path, const ImageView& image) {
  const std::vector<uint8_t> bytes = encode_png(image);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw data_error(fmt::format("cannot write `{}`: {}", path, std::generic_category().message(errno)));
}

}  // namespace tessera::image
