#include <spng.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/error.h"
#include "image/codec/codecs.h"

namespace tessera::image {
namespace {

constexpr size_t kRowCost = 64;                      // of a row, however short, in bytes of a long one
constexpr size_t kHeaderBytes = 8 + 8 + 13;          // signature, chunk header, IHDR
constexpr size_t kMaxChunkBytes = size_t{64} << 20;  // of the chunks that are kept in memory (text, profiles)

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, FreeContext>;

// Whether the system refused this thread's file memory. libspng's codes do not tell: a window that zlib can't have is a damaged
// stream to it.
thread_local bool t_refused = false;

void* note_refusal(void* memory) {
  if (!memory) t_refused = true;
  return memory;
}

Context make_context() {
  spng_alloc allocator{[](size_t size) { return note_refusal(std::malloc(size)); },
                       [](void* memory, size_t size) { return note_refusal(std::realloc(memory, size)); },
                       [](size_t count, size_t size) { return note_refusal(std::calloc(count, size)); }, std::free};
  t_refused = false;
  Context context(spng_ctx_new2(&allocator, 0));
  if (!context) throw std::bad_alloc();
  return context;
}

DecodeFailure png_error(int code) {
  if (code == SPNG_IO_EOF || code == SPNG_EOF) return {"truncated: the PNG data ends before the image does"};
  return {fmt::format("damaged PNG: {}", spng_strerror(code))};
}

// Of a context of make_context().
DecodeFailure decode_error(int code) {
  if (t_refused) throw std::bad_alloc();
  return png_error(code);
}

uint32_t big_endian(const uint8_t* p) { return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3]; }

// Row by row, as they stand in the file, with a look at the meter in between.
SampleError decode_rows(spng_ctx* context, spng_format format, uint8_t* out, size_t row_bytes, DecodeMeter& meter) {
  constexpr size_t kBytesBetweenLooks = 1 << 16;
  int code = spng_decode_image(context, nullptr, 0, format, SPNG_DECODE_PROGRESSIVE);
  for (size_t bytes = 0; code == 0;) {
    spng_row_info row{};
    code = spng_get_row_info(context, &row);
    if (code == 0) code = spng_decode_row(context, out + row.row_num * row_bytes, row_bytes);
    if ((bytes += row_bytes + kRowCost) < kBytesBetweenLooks) continue;
    bytes = 0;
    if (const char* reason = meter.over()) return DecodeFailure{reason};
  }
  if (code != SPNG_EOI) return decode_error(code);
  return std::nullopt;
}

// libspng has no conversion of 16-bit grey to RGB8 that clamps.
SampleError decode_grey16(spng_ctx* context, DecodeMeter& meter, Image& image) {
  const size_t pixels = static_cast<size_t>(image.width()) * static_cast<size_t>(image.height());
  auto grey = std::make_unique_for_overwrite<uint16_t[]>(pixels);
  const size_t row_bytes = 2 * static_cast<size_t>(image.width());
  if (SampleError failed = decode_rows(context, SPNG_FMT_PNG, reinterpret_cast<uint8_t*>(grey.get()), row_bytes, meter))
    return failed;
  uint8_t* to = image.row(0);
  for (size_t i = 0; i < pixels; ++i, to += 3) to[0] = to[1] = to[2] = static_cast<uint8_t>(std::min<unsigned>(grey[i], 255));
  return std::nullopt;
}

// The last chunk of pixels is checked only when what follows it is read. That something else is wrong behind the pixels (the
// end chunk is missing, say) does no harm.
SampleError check_last_chunk(spng_ctx* context) {
  const int code = spng_decode_chunks(context);
  if (code == SPNG_ECHUNK_CRC || t_refused) return decode_error(code);
  return std::nullopt;
}

}  // namespace

SampleError probe_png(ByteSpan bytes, ImageInfo& info) {
  if (bytes.size() < kHeaderBytes) return png_error(SPNG_IO_EOF);
  const uint32_t width = big_endian(bytes.data() + 16), height = big_endian(bytes.data() + 20);
  if (width > INT32_MAX || height > INT32_MAX) return png_error(SPNG_EWIDTH);
  info.width = static_cast<int>(width);
  info.height = static_cast<int>(height);
  return std::nullopt;
}

SampleError decode_png(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs) {
  const Context context = make_context();
  spng_set_chunk_limits(context.get(), kMaxChunkBytes, kMaxChunkBytes);
  spng_set_png_buffer(context.get(), bytes.data(), bytes.size());
  spng_ihdr header;
  if (const int code = spng_get_ihdr(context.get(), &header)) return decode_error(code);
  if (SampleError failed = meter.check_size(header.width, header.height)) return failed;
  const bool grey16 = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header.bit_depth == 16;
  if (SampleError failed = meter.check_bytes((Image::kChannels + (grey16 ? 2.0 : 0.0)) * header.width * header.height))
    return failed;
  meter.start();
  if (header.bit_depth == 16) repairs.add(Repair::kSixteenBits);
  if (header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA || header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA) {
    repairs.add(Repair::kAlpha);
  }
  image.reset(static_cast<int>(header.width), static_cast<int>(header.height));
  SampleError failed =
      grey16 ? decode_grey16(context.get(), meter, image)
             : decode_rows(context.get(), SPNG_FMT_RGB8, image.row(0), static_cast<size_t>(image.stride()), meter);
  return failed ? failed : check_last_chunk(context.get());
}

}  // namespace tessera::image
