// The first page of a TIFF by libtiff. What libtiff can read and Pillow can't, or a picture has no use for (floats, Lab), is refused.

#include <fmt/format.h>
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "image/codec/codecs.h"
#include "image/codec/exif.h"

namespace tessera::image {
namespace {

// The file in memory, and what libtiff said first.
struct Input {
  ByteSpan bytes;
  uint64_t at = 0;
  std::string trouble{};
};

tmsize_t read(thandle_t handle, void* to, tmsize_t count) {
  Input& input = *static_cast<Input*>(handle);
  if (count <= 0 || input.at >= input.bytes.size()) return 0;
  const size_t length = std::min(static_cast<size_t>(count), input.bytes.size() - static_cast<size_t>(input.at));
  std::memcpy(to, input.bytes.data() + input.at, length);
  input.at += length;
  return static_cast<tmsize_t>(length);
}
tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek(thandle_t handle, toff_t offset, int from) {
  Input& input = *static_cast<Input*>(handle);
  input.at = offset + (from == SEEK_CUR ? input.at : from == SEEK_END ? input.bytes.size() : 0);
  return input.at;
}
int close(thandle_t) { return 0; }
toff_t size(thandle_t handle) { return static_cast<Input*>(handle)->bytes.size(); }

int note_error(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  std::string& trouble = static_cast<Input*>(user)->trouble;
  std::array<char, 256> words{};
  std::vsnprintf(words.data(), words.size(), format, arguments);
  if (trouble.empty()) trouble = words.data();
  return 1;  // it has been dealt with: nothing goes to stderr
}
int ignore_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct Close {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};
using Tiff = std::unique_ptr<TIFF, Close>;

DecodeFailure tiff_error(const Input& input) {
  return {fmt::format("damaged TIFF: {}", input.trouble.empty() ? "its data can't be read" : input.trouble)};
}

SampleError open(Input& input, int64_t max_bytes, Tiff& tiff) {
  const std::unique_ptr<TIFFOpenOptions, Close> options(TIFFOpenOptionsAlloc());
  if (!options) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), max_bytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), note_error, &input);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), ignore_warning, &input);
  // m: libtiff does not map it, since it is in memory.
  tiff.reset(TIFFClientOpenExt("image", "rm", &input, read, write, seek, close, size, nullptr, nullptr, options.get()));
  if (!tiff) return tiff_error(input);
  return std::nullopt;
}

enum class Kind { kGrey, kPalette, kRgb, kCmyk };

// What the directory says of the pixels.
struct Layout {
  uint32_t width = 0, height = 0;
  uint16_t bits = 1, samples = 1;
  Kind kind = Kind::kGrey;
  bool inverted = false;     // grey where 0 is white
  bool separate = false;     // a plane a sample
  bool alpha = false;        // there is some
  bool multiplied = false;   // and the colours are multiplied by it
  uint16_t orientation = 1;  // as EXIF's
  std::array<const uint16_t*, 3> colours{};
  size_t colour_samples() const { return kind == Kind::kRgb ? 3 : kind == Kind::kCmyk ? 4 : 1; }
};

template <class T>
T field(TIFF* tiff, uint32_t tag, T without) {
  T value = without;
  return TIFFGetFieldDefaulted(tiff, tag, &value) ? value : without;
}

DecodeFailure unsupported(const std::string& what) { return {fmt::format("a TIFF {}, which is not supported", what)}; }

SampleError read_kind(TIFF* tiff, uint16_t compression, Layout& layout) {
  const auto photometric = field<uint16_t>(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  switch (photometric) {
    case PHOTOMETRIC_MINISWHITE: layout.inverted = layout.bits < 16; [[fallthrough]];  // Pillow takes 16 bits as they are
    case PHOTOMETRIC_MINISBLACK: layout.kind = Kind::kGrey; break;
    case PHOTOMETRIC_PALETTE: layout.kind = Kind::kPalette; break;
    case PHOTOMETRIC_RGB: layout.kind = Kind::kRgb; break;
    case PHOTOMETRIC_SEPARATED: layout.kind = Kind::kCmyk; break;
    case PHOTOMETRIC_YCBCR:
      if (compression != COMPRESSION_JPEG) return unsupported("of YCbCr that is no JPEG");
      TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      layout.kind = layout.samples == 1 ? Kind::kGrey : Kind::kRgb;
      break;
    default: return unsupported(fmt::format("with colours of kind {}", photometric));
  }
  return std::nullopt;
}

SampleError check_samples(TIFF* tiff, const Layout& layout) {
  const auto format = field<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  const bool one = layout.colour_samples() == 1;
  if (format != SAMPLEFORMAT_UINT && !(format == SAMPLEFORMAT_INT && layout.kind == Kind::kGrey && layout.bits == 8)) {
    return unsupported("of numbers that are not unsigned");
  }
  const bool few = layout.bits == 1 || layout.bits == 2 || layout.bits == 4;
  const bool sixteen = layout.bits == 16 && layout.kind != Kind::kPalette;
  if (layout.bits != 8 && !sixteen && !(few && one && layout.samples == 1)) {
    return unsupported(fmt::format("of {} samples of {} bits", layout.samples, layout.bits));
  }
  if (layout.samples < layout.colour_samples()) {
    return DecodeFailure{fmt::format("damaged TIFF: {} samples a pixel, too few for its colours", layout.samples)};
  }
  if (layout.multiplied && one) return unsupported("of grey multiplied by its transparency");
  return std::nullopt;
}

SampleError read_layout(TIFF* tiff, Layout& layout) {
  if (!TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &layout.width) || !TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &layout.height)) {
    return DecodeFailure{"damaged TIFF: it does not say its size"};
  }
  const auto compression = field<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  if (!TIFFIsCODECConfigured(compression) || compression == COMPRESSION_OJPEG) {
    return unsupported(fmt::format("with compression {}", compression));
  }
  layout.bits = field<uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  layout.samples = field<uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  layout.separate =
      layout.samples > 1 && field<uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
  layout.orientation = field<uint16_t>(tiff, TIFFTAG_ORIENTATION, 1);
  if (SampleError failed = read_kind(tiff, compression, layout)) return failed;
  uint16_t extra = 0;
  const uint16_t* extras = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &extra, &extras) && extra > 0) {
    layout.multiplied = extras[0] == EXTRASAMPLE_ASSOCALPHA;
    layout.alpha = extras[0] != EXTRASAMPLE_UNSPECIFIED;
  }
  if (layout.kind == Kind::kPalette) {
    auto& [red, green, blue] = layout.colours;
    if (!TIFFGetField(tiff, TIFFTAG_COLORMAP, &red, &green, &blue)) return DecodeFailure{"damaged TIFF: it has no palette"};
  }
  return check_samples(tiff, layout);
}

bool on_its_side(const Layout& layout) { return layout.orientation >= 5 && layout.orientation <= 8; }

// The `index`-th sample of a row, whose 16-bit samples are in this machine's order.
unsigned sample(const uint8_t* row, size_t index, unsigned bits) {
  if (bits == 8) return row[index];
  if (bits == 16) {
    uint16_t value;
    std::memcpy(&value, row + 2 * index, 2);
    return value;
  }
  const size_t bit = index * bits;
  return row[bit / 8] >> (8 - bits - bit % 8) & ((1U << bits) - 1);
}

// Of a pixel: its colours as they stand in the file, and its transparency where they are multiplied by it.
using Samples = std::array<unsigned, 5>;

uint8_t grey(const Layout& layout, unsigned value) {
  if (layout.bits == 16) return static_cast<uint8_t>(std::min(value, 255U));
  const auto eight = static_cast<uint8_t>(value * 255 / ((1U << layout.bits) - 1));
  return layout.inverted ? static_cast<uint8_t>(255 - eight) : eight;
}

void put_pixel(const Layout& layout, Samples s, uint8_t* to) {
  if (layout.bits == 16 && layout.kind != Kind::kGrey) {
    for (unsigned& value : s) value >>= 8;
  }
  switch (layout.kind) {
    case Kind::kGrey: to[0] = to[1] = to[2] = grey(layout, s[0]); return;
    case Kind::kPalette:
      for (size_t c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(layout.colours[c][s[0]] >> 8);
      return;
    case Kind::kRgb:
      for (size_t c = 0; c < 3; ++c) {
        to[c] = static_cast<uint8_t>(!layout.multiplied ? s[c] : s[3] == 0 ? 0 : std::min(255 * s[c] / s[3], 255U));
      }
      return;
    case Kind::kCmyk:
      for (size_t c = 0; c < 3; ++c) to[c] = multiply_255(255 - s[c], 255 - s[3]);
      return;
  }
}

// The file's rectangles of pixels: its tiles, or its strips, which are as wide as the picture.
class Chunks {
 public:
  Chunks(TIFF* tiff, const Layout& layout, const Input& input) : tiff_(tiff), layout_(layout), input_(input) {
    tiled_ = TIFFIsTiled(tiff) != 0;
    width_ = tiled_ ? field<uint32_t>(tiff, TIFFTAG_TILEWIDTH, 0) : layout.width;
    height_ = tiled_ ? field<uint32_t>(tiff, TIFFTAG_TILELENGTH, 0)
                     : std::min(field<uint32_t>(tiff, TIFFTAG_ROWSPERSTRIP, layout.height), layout.height);
    row_bytes_ = static_cast<uint64_t>(tiled_ ? TIFFTileRowSize64(tiff) : TIFFScanlineSize64(tiff));
    bytes_ = row_bytes_ * height_;
  }

  // Of all planes of one, and of the compressed bytes.
  double memory() const {
    return static_cast<double>(bytes_) * static_cast<double>(planes()) + static_cast<double>(input_.bytes.size());
  }

  SampleError decode(DecodeMeter& meter, Image& image) {
    const size_t samples_in_row = layout_.separate ? 1 : layout_.samples;
    if (width_ == 0 || height_ == 0 || row_bytes_ * 8 < uint64_t{width_} * samples_in_row * layout_.bits)
      return tiff_error(input_);
    data_.resize(planes(), std::vector<uint8_t>(bytes_));
    for (uint32_t y = 0; y < layout_.height; y += height_) {
      for (uint32_t x = 0; x < layout_.width; x += width_) {
        for (size_t plane = 0; plane < planes(); ++plane) {
          if (!read(x, y, static_cast<uint16_t>(plane))) return tiff_error(input_);
          if (const char* reason = meter.over()) return DecodeFailure{reason};
        }
        put(x, y, image);
      }
    }
    return std::nullopt;
  }

 private:
  // Those that the pixels need.
  size_t planes() const {
    return layout_.separate ? std::min<size_t>(layout_.samples, layout_.colour_samples() + (layout_.multiplied ? 1 : 0)) : 1;
  }

  bool read(uint32_t x, uint32_t y, uint16_t plane) {
    auto* to = data_[plane].data();
    if (tiled_)
      return TIFFReadEncodedTile(tiff_, TIFFComputeTile(tiff_, x, y, 0, plane), to, static_cast<tmsize_t>(bytes_)) >= 0;
    const uint64_t rows = std::min(height_, layout_.height - y);
    const auto wanted = static_cast<tmsize_t>(rows * row_bytes_);
    return TIFFReadEncodedStrip(tiff_, TIFFComputeStrip(tiff_, y, plane), to, wanted) == wanted;
  }

  void put(uint32_t left, uint32_t top, Image& image) const {
    const uint32_t columns = std::min(width_, layout_.width - left), rows = std::min(height_, layout_.height - top);
    const size_t used = std::min<size_t>(layout_.samples, layout_.colour_samples() + (layout_.multiplied ? 1 : 0));
    Samples samples{};
    for (uint32_t y = 0; y < rows; ++y) {
      uint8_t* to = image.row(static_cast<int>(top + y)) + 3 * static_cast<ptrdiff_t>(left);
      const size_t at = y * row_bytes_;
      for (uint32_t x = 0; x < columns; ++x, to += 3) {
        for (size_t s = 0; s < used; ++s) {
          samples[s] = layout_.separate ? sample(data_[s].data() + at, x, layout_.bits)
                                        : sample(data_[0].data() + at, size_t{x} * layout_.samples + s, layout_.bits);
        }
        put_pixel(layout_, samples, to);
      }
    }
  }

  TIFF* tiff_;
  const Layout& layout_;
  const Input& input_;
  bool tiled_ = false;
  uint32_t width_ = 0, height_ = 0;
  uint64_t row_bytes_ = 0, bytes_ = 0;
  std::vector<std::vector<uint8_t>> data_;  // of a chunk, a plane each
};

}  // namespace

bool is_tiff(ByteSpan bytes) {
  if (bytes.size() < 4) return false;
  const bool little = bytes[0] == 'I' && bytes[1] == 'I' && bytes[3] == 0;
  const bool big = bytes[0] == 'M' && bytes[1] == 'M' && bytes[2] == 0;
  const uint8_t version = little ? bytes[2] : bytes[3];
  return (little || big) && (version == 42 || version == 43);
}

SampleError probe_tiff(ByteSpan bytes, const DecodeMeter& meter, ImageInfo& info) {
  Input input{bytes};
  Tiff tiff;
  Layout layout;
  if (SampleError failed = open(input, meter.limits().bytes, tiff)) return failed;
  if (SampleError failed = read_layout(tiff.get(), layout)) return failed;
  if (SampleError failed = meter.check_size(layout.width, layout.height)) return failed;
  info.width = static_cast<int>(on_its_side(layout) ? layout.height : layout.width);
  info.height = static_cast<int>(on_its_side(layout) ? layout.width : layout.height);
  return std::nullopt;
}

SampleError decode_tiff(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs) {
  Input input{bytes};
  Tiff tiff;
  Layout layout;
  meter.start();
  if (SampleError failed = open(input, meter.limits().bytes, tiff)) return failed;
  if (SampleError failed = read_layout(tiff.get(), layout)) return failed;
  if (SampleError failed = meter.check_size(layout.width, layout.height)) return failed;
  const bool turned = layout.orientation >= 2 && layout.orientation <= 8;
  Chunks chunks(tiff.get(), layout, input);
  const double pixels = double{Image::kChannels} * layout.width * layout.height;
  if (SampleError failed = meter.check_bytes((turned ? 2 : 1) * pixels + chunks.memory())) return failed;
  if (layout.alpha) repairs.add(Repair::kAlpha);
  if (layout.kind == Kind::kCmyk) repairs.add(Repair::kInk);
  if (layout.bits == 16) repairs.add(Repair::kSixteenBits);
  if (turned) repairs.add(Repair::kTurned);
  Image as_stored;
  Image& to = turned ? as_stored : image;
  to.reset(static_cast<int>(layout.width), static_cast<int>(layout.height));
  if (SampleError failed = chunks.decode(meter, to)) return failed;
  if (turned) turn_upright(as_stored, layout.orientation, image);
  return std::nullopt;
}

}  // namespace tessera::image
