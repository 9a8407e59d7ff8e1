// BMP by a reader of our own: no library of Debian's gives the pixels that Pillow gives (16-bit colours), and the format is
// small. Microsoft's "Bitmap Storage" and OS/2's first header.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "image/codec/codecs.h"

namespace tessera::image {
namespace {

constexpr size_t kFileHeader = 14;  // before the picture's header, which begins with its own size
constexpr size_t kCoreHeader = 12;  // OS/2's and Windows 2's, with sizes of 16 bits and colours of three bytes
enum Compression : uint32_t { kRaw = 0, kRle8 = 1, kRle4 = 2, kMasks = 3 };

uint32_t little16(const uint8_t* p) { return p[0] | uint32_t{p[1]} << 8; }
uint32_t little32(const uint8_t* p) { return little16(p) | little16(p + 2) << 16; }

struct Masks {
  uint32_t red, green, blue, alpha;
  bool operator==(const Masks&) const = default;
};

struct Header {
  int64_t width = 0, height = 0;
  bool from_top = false;  // its first row is the picture's
  uint32_t bits = 0, compression = kRaw;
  size_t palette = 0, colours = 0, colour_bytes = 0;  // where in the file, how many, and how long one of them is
  size_t pixels = 0;                                  // where in the file
  Masks masks{};
};

DecodeFailure truncated() { return {"truncated: the BMP data ends before the image does"}; }

bool indexed(const Header& header) { return header.bits <= 8; }

// The masks stand in the header, or behind one of 40 bytes, which knows no alpha.
SampleError read_masks(ByteSpan bytes, size_t header_bytes, Masks& masks) {
  constexpr size_t kAt = kFileHeader + 40;
  if (bytes.size() < kAt + 16) return truncated();
  const uint8_t* at = bytes.data() + kAt;
  masks = {little32(at), little32(at + 4), little32(at + 8), header_bytes >= 56 ? little32(at + 12) : 0};
  return std::nullopt;
}

SampleError read_header(ByteSpan bytes, Header& header) {
  if (bytes.size() < kFileHeader + kCoreHeader) return truncated();
  const uint8_t* at = bytes.data() + kFileHeader;
  const size_t header_bytes = little32(at);
  if (bytes.size() < kFileHeader + header_bytes) return truncated();
  size_t end = kFileHeader + header_bytes;
  if (header_bytes == kCoreHeader) {
    header.width = little16(at + 4);
    header.height = little16(at + 6);
    header.bits = little16(at + 10);
    header.colour_bytes = 3;
  } else {
    header.width = static_cast<int32_t>(little32(at + 4));
    header.height = static_cast<int32_t>(little32(at + 8));
    header.from_top = header.height < 0;
    header.height = header.from_top ? -header.height : header.height;
    header.bits = little16(at + 14);
    header.compression = little32(at + 16);
    header.colours = little32(at + 32);
    header.colour_bytes = 4;
    if (header.compression == kMasks) {
      if (SampleError failed = read_masks(bytes, header_bytes, header.masks)) return failed;
      if (header_bytes < 52) end += 12;
    }
  }
  const uint32_t bits = header.bits;
  if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32) {
    return DecodeFailure{fmt::format("a BMP of {} bits a pixel, which is not supported", bits)};
  }
  header.palette = end;
  header.pixels = little32(bytes.data() + 10);
  if (indexed(header)) {
    if (header.colours == 0) header.colours = size_t{1} << bits;
    end += header.colours * header.colour_bytes;
    // Some writers forget the palette.
    if (header.pixels == kFileHeader + header_bytes) header.pixels = end;
  }
  if (header.pixels == 0) header.pixels = end;
  return std::nullopt;
}

// How the bytes of a pixel become red, green and blue.
struct Channels {
  enum class Kind { kIndexed, kFive, kFiveSix, kBytes } kind = Kind::kIndexed;
  std::array<uint8_t, 3> at{2, 1, 0};  // of kBytes: where red, green and blue stand
  bool alpha = false;
};

// The layouts that Pillow knows.
SampleError read_channels(const Header& header, Channels& channels) {
  using Kind = Channels::Kind;
  if (header.compression == kRle8 || header.compression == kRle4) {
    if (header.bits == (header.compression == kRle8 ? 8U : 4U)) return std::nullopt;
    return DecodeFailure{fmt::format("damaged BMP: run lengths of {} bits a pixel", header.bits)};
  }
  if (header.compression > kMasks)
    return DecodeFailure{"a BMP with a JPEG, a PNG or unknown data inside, which is not supported"};
  if (header.compression == kRaw) {
    channels.kind = indexed(header) ? Kind::kIndexed : header.bits == 16 ? Kind::kFive : Kind::kBytes;
    return std::nullopt;
  }
  const Masks& m = header.masks;
  const Masks colours{m.red, m.green, m.blue, 0};
  if (header.bits == 16 && (colours == Masks{0xF800, 0x7E0, 0x1F, 0} || colours == Masks{0x7C00, 0x3E0, 0x1F, 0})) {
    channels.kind = m.red == 0xF800 ? Kind::kFiveSix : Kind::kFive;
    return std::nullopt;
  }
  channels.kind = Kind::kBytes;
  if (header.bits == 24 && colours == Masks{0xFF0000, 0xFF00, 0xFF, 0}) return std::nullopt;
  struct Layout {
    Masks masks;
    std::array<uint8_t, 3> at;
  };
  static constexpr std::array<Layout, 8> kLayouts{{{{0xFF0000, 0xFF00, 0xFF, 0}, {2, 1, 0}},
                                                   {{0xFF000000, 0xFF0000, 0xFF00, 0}, {3, 2, 1}},
                                                   {{0xFF000000, 0xFF00, 0xFF, 0}, {3, 1, 0}},
                                                   {{0xFF000000, 0xFF0000, 0xFF00, 0xFF}, {3, 2, 1}},
                                                   {{0xFF, 0xFF00, 0xFF0000, 0xFF000000}, {0, 1, 2}},
                                                   {{0xFF0000, 0xFF00, 0xFF, 0xFF000000}, {2, 1, 0}},
                                                   {{0xFF000000, 0xFF00, 0xFF, 0xFF0000}, {3, 1, 0}},
                                                   {{0, 0, 0, 0}, {2, 1, 0}}}};
  const auto* const layout = std::ranges::find(kLayouts, m, &Layout::masks);
  if (header.bits != 32 || layout == kLayouts.end()) return DecodeFailure{"a BMP with masks of colours that are not supported"};
  channels.at = layout->at;
  channels.alpha = m.alpha != 0 || m == Masks{0, 0, 0, 0};
  return std::nullopt;
}

// Colours as red, green, blue. What the file doesn't give is black.
using Palette = std::array<std::array<uint8_t, 3>, 256>;

SampleError read_palette(ByteSpan bytes, const Header& header, Palette& palette) {
  const size_t colours = std::min(header.colours, palette.size());
  if (bytes.size() < header.palette + colours * header.colour_bytes) return truncated();
  const uint8_t* at = bytes.data() + header.palette;
  for (size_t i = 0; i < colours; ++i, at += header.colour_bytes) palette[i] = {at[2], at[1], at[0]};
  return std::nullopt;
}

// A row of packed indices, the first pixel in the highest bits.
void indexed_row(const uint8_t* from, uint32_t bits, int width, const Palette& palette, uint8_t* to) {
  const uint32_t mask = (1U << bits) - 1, in_byte = 8 / bits;
  for (uint32_t x = 0; x < static_cast<uint32_t>(width); ++x, to += 3) {
    const uint32_t index = from[x / in_byte] >> (8 - bits - x % in_byte * bits) & mask;
    std::memcpy(to, palette[index].data(), 3);
  }
}

void row_16(const uint8_t* from, bool six, int width, uint8_t* to) {
  const auto widen = [](uint32_t value, uint32_t most) { return static_cast<uint8_t>((value & most) * 255 / most); };
  for (int x = 0; x < width; ++x, from += 2, to += 3) {
    const uint32_t pixel = little16(from);
    to[0] = widen(pixel >> (six ? 11 : 10), 31);
    to[1] = widen(pixel >> 5, six ? 63 : 31);
    to[2] = widen(pixel, 31);
  }
}

void bytes_row(const uint8_t* from, uint32_t bits, const std::array<uint8_t, 3>& at, int width, uint8_t* to) {
  for (int x = 0; x < width; ++x, from += bits / 8, to += 3) {
    for (size_t c = 0; c < 3; ++c) to[c] = from[at[c]];
  }
}

SampleError decode_rows(ByteSpan bytes, const Header& header, const Channels& channels, const Palette& palette,
                        DecodeMeter& meter, Image& image) {
  const auto row_bytes = (static_cast<size_t>(header.width) * header.bits + 31) / 32 * 4;
  const size_t there = bytes.size() - std::min(bytes.size(), header.pixels);
  // Some writers leave out the padding behind the last row.
  const size_t last = (static_cast<size_t>(header.width) * header.bits + 7) / 8;
  if (there < row_bytes * static_cast<size_t>(header.height - 1) + last) return truncated();
  for (int y = 0; y < image.height(); ++y) {
    const uint8_t* from = bytes.data() + header.pixels + row_bytes * static_cast<size_t>(y);
    uint8_t* to = image.row(header.from_top ? y : image.height() - 1 - y);
    switch (channels.kind) {
      case Channels::Kind::kIndexed: indexed_row(from, header.bits, image.width(), palette, to); break;
      case Channels::Kind::kFive: row_16(from, false, image.width(), to); break;
      case Channels::Kind::kFiveSix: row_16(from, true, image.width(), to); break;
      case Channels::Kind::kBytes: bytes_row(from, header.bits, channels.at, image.width(), to); break;
    }
    if (const char* reason = meter.over()) return DecodeFailure{reason};
  }
  return std::nullopt;
}

// Where run lengths are: pixels that none of them names have index 0.
class RunLengths {
 public:
  RunLengths(ByteSpan bytes, const Header& header, const Palette& palette, Image& image)
      : bytes_(bytes),
        at_(header.pixels),

        four_(header.bits == 4),
        from_top_(header.from_top),
        palette_(palette),
        image_(image) {}

  SampleError decode(DecodeMeter& meter) {
    for (int y = 0; y < image_.height(); ++y) {
      for (int x = 0; x < image_.width(); ++x)
        std::memcpy(image_.row(y) + 3 * static_cast<ptrdiff_t>(x), palette_[0].data(), 3);
    }
    while (y_ < image_.height()) {
      if (const char* reason = meter.over()) return DecodeFailure{reason};
      if (left() < 2) return truncated();
      const uint8_t count = bytes_[at_], value = bytes_[at_ + 1];
      at_ += 2;
      if (count > 0) {
        for (unsigned i = 0; i < count; ++i) put(four_ ? (i % 2 == 0 ? value >> 4 : value & 15) : value);
      } else if (value == kEndOfLine) {
        x_ = 0;
        ++y_;
      } else if (value == kEndOfBitmap) {
        break;
      } else if (value == kDelta) {
        if (left() < 2) return truncated();
        x_ += bytes_[at_];
        y_ += bytes_[at_ + 1];
        at_ += 2;
      } else if (!literal(value)) {
        return truncated();
      }
    }
    return std::nullopt;
  }

 private:
  enum Escape : uint8_t { kEndOfLine = 0, kEndOfBitmap = 1, kDelta = 2 };

  size_t left() const { return bytes_.size() - std::min(at_, bytes_.size()); }

  void put(unsigned index) {
    if (x_ < image_.width()) {
      uint8_t* row = image_.row(from_top_ ? static_cast<int>(y_) : image_.height() - 1 - static_cast<int>(y_));
      std::memcpy(row + 3 * x_, palette_[index].data(), 3);
    }
    ++x_;
  }

  // Pixels as they are, to an even number of bytes.
  bool literal(unsigned count) {
    const size_t length = four_ ? (count + 1) / 2 : count;
    if (left() < length) return false;
    for (unsigned i = 0; i < count; ++i) {
      const uint8_t value = bytes_[at_ + (four_ ? i / 2 : i)];
      put(four_ ? (i % 2 == 0 ? value >> 4 : value & 15) : value);
    }
    at_ += length + length % 2;
    return true;
  }

  ByteSpan bytes_;
  size_t at_;
  bool four_, from_top_;
  const Palette& palette_;
  Image& image_;
  int64_t x_ = 0, y_ = 0;
};

}  // namespace

bool is_bmp(ByteSpan bytes) {
  if (bytes.size() < kFileHeader + 4 || bytes[0] != 'B' || bytes[1] != 'M') return false;
  const uint32_t header = little32(bytes.data() + kFileHeader);  // "BM" alone could begin a text
  return header == kCoreHeader || header == 40 || header == 52 || header == 56 || header == 64 || header == 108 ||
         header == 124;
}

SampleError probe_bmp(ByteSpan bytes, ImageInfo& info) {
  Header header;
  if (SampleError failed = read_header(bytes, header)) return failed;
  info.width = static_cast<int>(header.width);
  info.height = static_cast<int>(std::min<int64_t>(header.height, INT32_MAX));
  return std::nullopt;
}

SampleError decode_bmp(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs) {
  Header header;
  Channels channels;
  Palette palette{};
  if (SampleError failed = read_header(bytes, header)) return failed;
  if (SampleError failed = read_channels(header, channels)) return failed;
  if (SampleError failed = meter.check_size(header.width, header.height)) return failed;
  if (SampleError failed = meter.check_bytes(double{Image::kChannels} * static_cast<double>(header.width * header.height))) {
    return failed;
  }
  if (indexed(header)) {
    if (SampleError failed = read_palette(bytes, header, palette)) return failed;
  }
  meter.start();
  if (channels.alpha) repairs.add(Repair::kAlpha);
  image.reset(static_cast<int>(header.width), static_cast<int>(header.height));
  if (header.compression == kRle8 || header.compression == kRle4)
    return RunLengths(bytes, header, palette, image).decode(meter);
  return decode_rows(bytes, header, channels, palette, meter, image);
}

}  // namespace tessera::image
