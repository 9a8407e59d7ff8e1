#include "image/codec/exif.h"

#include <cstring>
#include <string_view>

#include "base/error.h"
#include "image/codec/decode.h"
#include "image/codec/pixels_file.h"

namespace tessera::image {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kExifHeader = "Exif\0\0"sv;
constexpr uint16_t kOrientation = 0x0112, kShort = 3;

bool starts_with(ByteSpan bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// A number of `size` bytes at `at`, or 0 past the end.
uint32_t number(ByteSpan bytes, size_t at, size_t size, bool big_endian) {
  if (at > bytes.size() || bytes.size() - at < size) return 0;
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) value = value << 8 | bytes[at + (big_endian ? i : size - 1 - i)];
  return value;
}

ByteSpan without_header(ByteSpan exif) { return starts_with(exif, kExifHeader) ? exif.subspan(kExifHeader.size()) : exif; }

ByteSpan jpeg_exif(ByteSpan file) {
  constexpr uint8_t kApp1 = 0xE1, kStartOfScan = 0xDA;
  for (size_t at = 2; at + 4 <= file.size() && file[at] == 0xFF && file[at + 1] != kStartOfScan;) {
    const size_t length = number(file, at + 2, 2, true);
    if (length < 2 || file.size() - at - 2 < length) break;
    const ByteSpan body = file.subspan(at + 4, length - 2);
    if (file[at + 1] == kApp1 && starts_with(body, kExifHeader)) return without_header(body);
    at += 2 + length;
  }
  return {};
}

ByteSpan png_exif(ByteSpan file) {
  constexpr size_t kOverhead = 12;  // length, kind and checksum of a chunk
  for (size_t at = 8; at + kOverhead <= file.size();) {
    const size_t length = number(file, at, 4, true);
    if (file.size() - at - kOverhead < length) break;
    if (starts_with(file.subspan(at + 4), "eXIf")) return without_header(file.subspan(at + 8, length));
    at += kOverhead + length;
  }
  return {};
}

ByteSpan webp_exif(ByteSpan file) {
  for (size_t at = 12; at + 8 <= file.size();) {
    const size_t length = number(file, at + 4, 4, false);
    if (file.size() - at - 8 < length) break;
    if (starts_with(file.subspan(at), "EXIF")) return without_header(file.subspan(at + 8, length));
    at += 8 + length + length % 2;
  }
  return {};
}

ByteSpan find_exif(ByteSpan file) {
  switch (sniff_format(file)) {
    case ImageFormat::kJpeg: return jpeg_exif(file);
    case ImageFormat::kPng: return png_exif(file);
    case ImageFormat::kWebp: return webp_exif(file);
    case ImageFormat::kBmp:
    case ImageFormat::kGif:
    case ImageFormat::kTiff:  // decoded upright (decode.h)
    case ImageFormat::kPixels:
    case ImageFormat::kUnknown: break;
  }
  return {};
}

}  // namespace

int exif_orientation(ByteSpan file) {
  if (is_pixels_file(file)) return read_pixels_file(file).orientation;
  const ByteSpan tiff = find_exif(file);
  const bool big_endian = starts_with(tiff, "MM");
  if (!big_endian && !starts_with(tiff, "II")) return 1;
  const size_t directory = number(tiff, 4, 4, big_endian), entries = number(tiff, directory, 2, big_endian);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (number(tiff, entry, 2, big_endian) != kOrientation) continue;
    const uint32_t value = number(tiff, entry + 8, 2, big_endian);
    const bool known = number(tiff, entry + 2, 2, big_endian) == kShort && value >= 1 && value <= 8;
    return known ? static_cast<int>(value) : 1;
  }
  return 1;
}

void turn_upright(const Image& from, int orientation, Image& to) {
  TESSERA_CHECK(orientation >= 1 && orientation <= 8);
  const bool transposed = orientation > 4;
  to.reset(transposed ? from.height() : from.width(), transposed ? from.width() : from.height());
  // Whether x and y of the source run backwards.
  const bool mirror_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirror_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int y = 0; y < to.height(); ++y) {
    uint8_t* out = to.row(y);
    for (int x = 0; x < to.width(); ++x, out += Image::kChannels) {
      const int along = transposed ? y : x, down = transposed ? x : y;
      const int source_x = mirror_x ? from.width() - 1 - along : along;
      const int source_y = mirror_y ? from.height() - 1 - down : down;
      std::memcpy(out, from.row(source_y) + ptrdiff_t{source_x} * Image::kChannels, Image::kChannels);
    }
  }
}

}  // namespace tessera::image
