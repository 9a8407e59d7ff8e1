#include "data/decode.h"

#include <cstring>
#include <string_view>

#include "base/error.h"
#include "data/codecs.h"
#include "data/pixels_file.h"

namespace tessera::data {

const char* format_name(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg: return "JPEG";
    case ImageFormat::kPng: return "PNG";
    case ImageFormat::kWebp: return "WebP";
    case ImageFormat::kPixels: return "pixels";
    case ImageFormat::kUnknown: break;
  }
  return "unknown";
}

ImageFormat sniff_format(Bytes bytes) {
  using std::string_view_literals::operator""sv;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xff\xd8\xff"sv)) return ImageFormat::kJpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n"sv)) return ImageFormat::kPng;
  if (text.starts_with("RIFF"sv) && text.size() >= 12 && text.substr(8, 4) == "WEBP"sv) return ImageFormat::kWebp;
  return is_pixels_file(bytes) ? ImageFormat::kPixels : ImageFormat::kUnknown;
}

DecodeResult check_size(int64_t width, int64_t height, int64_t max_pixels) {
  if (width <= 0 || height <= 0) return DecodeError{fmt::format("the header says {}x{} pixels", width, height)};
  if (width > max_pixels / height) {
    return DecodeError{fmt::format("{}x{} pixels are more than the limit of {}", width, height, max_pixels)};
  }
  return std::nullopt;
}

namespace {

DecodeError unknown_format(Bytes bytes) {
  if (bytes.empty()) return {"the file is empty"};
  return {"not a JPEG, PNG or WebP image (by its first bytes)"};
}

}  // namespace

struct Decoder::State {
  int64_t max_pixels;
  JpegDecoder jpeg;

  // What start_region() was asked for.
  Bytes bytes = {};
  Box box = {};
  Image* storage = nullptr;

  // Of the last image.
  ImageFormat format = ImageFormat::kUnknown;
  Repairs repairs = {};  // unless it was a JPEG
};

Decoder::Decoder(int64_t max_pixels) : state_(new State{.max_pixels = max_pixels, .jpeg = JpegDecoder()}) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

DecodeResult Decoder::probe(Bytes bytes, ImageInfo& info) {
  info = {sniff_format(bytes), 0, 0};
  DecodeResult failed;
  switch (info.format) {
    case ImageFormat::kJpeg: return state_->jpeg.probe(bytes, state_->max_pixels, info);
    case ImageFormat::kPng: failed = probe_png(bytes, info); break;
    case ImageFormat::kWebp: failed = probe_webp(bytes, info); break;
    case ImageFormat::kPixels: {
      const ImageView image = read_pixels_file(bytes).image;
      info.width = image.width;
      info.height = image.height;
      break;
    }
    case ImageFormat::kUnknown: return unknown_format(bytes);
  }
  return failed ? failed : check_size(info.width, info.height, state_->max_pixels);
}

DecodeResult Decoder::decode(Bytes bytes, Image& image) {
  State& s = *state_;
  ImageView region;
  s.format = sniff_format(bytes);
  s.repairs = {};
  switch (s.format) {
    case ImageFormat::kJpeg: return s.jpeg.decode(bytes, s.max_pixels, nullptr, image, region);
    case ImageFormat::kPng: return decode_png(bytes, s.max_pixels, image, s.repairs);
    case ImageFormat::kWebp: return decode_webp(bytes, s.max_pixels, image, s.repairs);
    case ImageFormat::kPixels: {
      const PixelsFile file = read_pixels_file(bytes);
      s.repairs = file.repairs;
      image.reset(file.image.width, file.image.height);
      copy_image(file.image, false, image.row(0), image.stride());
      return std::nullopt;
    }
    case ImageFormat::kUnknown: break;
  }
  return unknown_format(bytes);
}

void Decoder::start_region(Bytes bytes, const Box& box, Image& storage, const DecodePolicy& policy) {
  State& s = *state_;
  s.bytes = bytes;
  s.box = box;
  s.storage = &storage;
  s.format = sniff_format(bytes);
  if (s.format == ImageFormat::kJpeg) {
    s.jpeg.start(bytes, s.max_pixels, &box, storage, policy);
  } else {
    s.jpeg.abandon();
  }
}

bool Decoder::decoding() const { return state_->jpeg.decoding(); }

void Decoder::decode_on(Decoder& first, Decoder* second) {
  JpegDecoder::decode_on(first.state_->jpeg, second ? &second->state_->jpeg : nullptr);
}

DecodeResult Decoder::finish_region(ImageView& region) {
  State& s = *state_;
  if (s.format == ImageFormat::kJpeg) return s.jpeg.finish(region);
  if (s.format == ImageFormat::kPixels) {
    const PixelsFile file = read_pixels_file(s.bytes);
    s.repairs = file.repairs;
    region = file.image.crop(s.box);
    return std::nullopt;
  }
  DecodeResult failed = decode(s.bytes, *s.storage);
  if (!failed) region = s.storage->view().crop(s.box);
  return failed;
}

Repairs Decoder::repairs() const { return state_->format == ImageFormat::kJpeg ? state_->jpeg.repairs() : state_->repairs; }

void Decoder::share_tables(Decoder& other) { state_->jpeg.share_tables(other.state_->jpeg); }

DecodeResult Decoder::decode_region(Bytes bytes, const Box& box, Image& storage, ImageView& region) {
  start_region(bytes, box, storage);
  if (decoding()) decode_on(*this, nullptr);
  return finish_region(region);
}

}  // namespace tessera::data
