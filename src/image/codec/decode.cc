#include "image/codec/decode.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"
#include "image/codec/codecs.h"
#include "image/codec/pixels_file.h"

namespace tessera::image {

const char* format_name(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg: return "JPEG";
    case ImageFormat::kPng: return "PNG";
    case ImageFormat::kWebp: return "WebP";
    case ImageFormat::kBmp: return "BMP";
    case ImageFormat::kGif: return "GIF";
    case ImageFormat::kTiff: return "TIFF";
    case ImageFormat::kPixels: return "pixels";
    case ImageFormat::kUnknown: break;
  }
  return "unknown";
}

std::span<const std::string_view> format_endings(ImageFormat format) {
  static constexpr std::array<std::string_view, 2> kJpeg{"jpg", "jpeg"}, kTiff{"tif", "tiff"};
  static constexpr std::array<std::string_view, 1> kPng{"png"}, kWebp{"webp"}, kBmp{"bmp"}, kGif{"gif"};
  switch (format) {
    case ImageFormat::kJpeg: return kJpeg;
    case ImageFormat::kPng: return kPng;
    case ImageFormat::kWebp: return kWebp;
    case ImageFormat::kBmp: return kBmp;
    case ImageFormat::kGif: return kGif;
    case ImageFormat::kTiff: return kTiff;
    case ImageFormat::kPixels:
    case ImageFormat::kUnknown: break;
  }
  return {};
}

ImageFormat format_of_name(std::string_view name) {
  const auto point = name.find_last_of("./");
  if (point == std::string_view::npos || name[point] != '.') return ImageFormat::kUnknown;
  std::string ending(name.substr(point + 1));
  std::ranges::transform(ending, ending.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const ImageFormat format : kFileFormats) {
    const auto endings = format_endings(format);
    if (std::ranges::find(endings, ending) != endings.end()) return format;
  }
  return ImageFormat::kUnknown;
}

ImageFormat sniff_format(ByteSpan bytes) {
  using std::string_view_literals::operator""sv;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xff\xd8\xff"sv)) return ImageFormat::kJpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n"sv)) return ImageFormat::kPng;
  if (text.starts_with("RIFF"sv) && text.size() >= 12 && text.substr(8, 4) == "WEBP"sv) return ImageFormat::kWebp;
  if (text.starts_with("GIF87a"sv) || text.starts_with("GIF89a"sv)) return ImageFormat::kGif;
  if (is_tiff(bytes)) return ImageFormat::kTiff;
  if (is_bmp(bytes)) return ImageFormat::kBmp;
  return is_pixels_file(bytes) ? ImageFormat::kPixels : ImageFormat::kUnknown;
}

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace

void DecodeMeter::start() {
  calls_ = 0;
  if (limits_.seconds > 0) end_ = thread_seconds() + limits_.seconds;
}

const char* DecodeMeter::over() {
  if (stop_ && stop_->load(std::memory_order_relaxed)) return "decoding was stopped";
  if (limits_.seconds <= 0 || ++calls_ % kCallsBetweenLooks != 0 || thread_seconds() < end_) return nullptr;
  const auto end = fmt::format_to_n(words_, sizeof words_ - 1,
                                    "decoding is over the limit of {:g} s of processor time, which another machine may keep",
                                    limits_.seconds);
  words_[std::min(end.size, sizeof words_ - 1)] = '\0';
  return words_;
}

SampleError DecodeMeter::check_size(int64_t width, int64_t height) const {
  if (width <= 0 || height <= 0) return DecodeFailure{fmt::format("the header says {}x{} pixels", width, height)};
  if (width > limits_.pixels / height) {
    return DecodeFailure{fmt::format("{}x{} pixels are over the limit of {}", width, height, limits_.pixels)};
  }
  if (std::max(width, height) > kMaxSide) {
    return DecodeFailure{fmt::format("{}x{} pixels: a side is over the limit of {}", width, height, kMaxSide)};
  }
  return std::nullopt;
}

SampleError DecodeMeter::check_bytes(double bytes) const {
  const auto most = static_cast<double>(limits_.bytes);
  if (bytes <= most) return std::nullopt;
  return DecodeFailure{
      fmt::format("decoding would take {}, which is over the limit of {}", human_bytes(bytes), human_bytes(most))};
}

namespace {

DecodeFailure unknown_format(ByteSpan bytes) {
  if (bytes.empty()) return {"the file is empty"};
  // A phone's photographs, in ISO media files: a size, "ftyp", and the brand.
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() >= 12 && text.substr(4, 4) == "ftyp") {
    const std::string_view brand = text.substr(8, 4);
    if (brand == "heic" || brand == "heix" || brand == "mif1") return {"a HEIC image, which is not read; convert it to JPEG"};
    if (brand == "avif") return {"an AVIF image, which is not read; convert it to JPEG"};
  }
  return {"not a JPEG, PNG, WebP, BMP, GIF or TIFF image (by its first bytes)"};
}

}  // namespace

struct Decoder::State {
  DecodeMeter meter;
  JpegDecoder jpeg;

  // What start_region() was asked for.
  ByteSpan bytes = {};
  Box box = {};
  Image* storage = nullptr;

  // Of the last image.
  ImageFormat format = ImageFormat::kUnknown;
  Repairs repairs = {};  // unless it was a JPEG
};

Decoder::Decoder(const DecodeLimits& limits)
    : state_(new State{.meter = DecodeMeter(limits, nullptr), .jpeg = JpegDecoder()}) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

void Decoder::set_limits(const DecodeLimits& limits, const std::atomic<bool>* stop) {
  state_->meter = DecodeMeter(limits, stop);
}

SampleError Decoder::check_made(int width, int height) const {
  const DecodeLimits& limits = state_->meter.limits();
  const auto pixels = static_cast<double>(width) * static_cast<double>(height);
  const double bytes = Image::kChannels * pixels;
  std::string limit;
  if (pixels > static_cast<double>(limits.pixels)) {
    limit = fmt::format("{} pixels", limits.pixels);
  } else if (bytes > static_cast<double>(limits.bytes)) {
    limit = human_bytes(static_cast<double>(limits.bytes));
  } else {
    return std::nullopt;
  }
  return DecodeFailure{fmt::format("resizing would make {}x{} pixels, {}, which is over the limit of {}", width, height,
                                   human_bytes(bytes), limit)};
}

SampleError Decoder::probe(ByteSpan bytes, ImageInfo& info) {
  info = {sniff_format(bytes), 0, 0};
  SampleError failed;
  switch (info.format) {
    case ImageFormat::kJpeg: return state_->jpeg.probe(bytes, state_->meter, info);
    case ImageFormat::kPng: failed = probe_png(bytes, info); break;
    case ImageFormat::kWebp: failed = probe_webp(bytes, info); break;
    case ImageFormat::kBmp: failed = probe_bmp(bytes, info); break;
    case ImageFormat::kGif: failed = probe_gif(bytes, info); break;
    case ImageFormat::kTiff: failed = probe_tiff(bytes, state_->meter, info); break;
    case ImageFormat::kPixels: {
      const ImageView image = read_pixels_file(bytes).image;
      info.width = image.width;
      info.height = image.height;
      break;
    }
    case ImageFormat::kUnknown: return unknown_format(bytes);
  }
  return failed ? failed : state_->meter.check_size(info.width, info.height);
}

SampleError Decoder::decode(ByteSpan bytes, Image& image) {
  State& s = *state_;
  ImageView region;
  s.format = sniff_format(bytes);
  s.repairs = {};
  switch (s.format) {
    case ImageFormat::kJpeg: return s.jpeg.decode(bytes, s.meter, nullptr, image, region);
    case ImageFormat::kPng: return decode_png(bytes, s.meter, image, s.repairs);
    case ImageFormat::kWebp: return decode_webp(bytes, s.meter, image, s.repairs);
    case ImageFormat::kBmp: return decode_bmp(bytes, s.meter, image, s.repairs);
    case ImageFormat::kGif: return decode_gif(bytes, s.meter, image, s.repairs);
    case ImageFormat::kTiff: return decode_tiff(bytes, s.meter, image, s.repairs);
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

void Decoder::start_region(ByteSpan bytes, const Box& box, Image& storage, const DecodePolicy& policy) {
  State& s = *state_;
  s.bytes = bytes;
  s.box = box;
  s.storage = &storage;
  s.format = sniff_format(bytes);
  if (s.format == ImageFormat::kJpeg) {
    s.jpeg.start(bytes, s.meter, &box, storage, policy);
  } else {
    s.jpeg.abandon();
  }
}

bool Decoder::decoding() const { return state_->jpeg.decoding(); }

void Decoder::decode_on(Decoder& first, Decoder* second) {
  JpegDecoder::decode_on(first.state_->jpeg, second ? &second->state_->jpeg : nullptr);
}

SampleError Decoder::finish_region(ImageView& region) {
  State& s = *state_;
  if (s.format == ImageFormat::kJpeg) return s.jpeg.finish(region);
  if (s.format == ImageFormat::kPixels) {
    const PixelsFile file = read_pixels_file(s.bytes);
    s.repairs = file.repairs;
    region = file.image.crop(s.box);
    return std::nullopt;
  }
  SampleError failed = decode(s.bytes, *s.storage);
  if (!failed) region = s.storage->view().crop(s.box);
  return failed;
}

Repairs Decoder::repairs() const { return state_->format == ImageFormat::kJpeg ? state_->jpeg.repairs() : state_->repairs; }

void Decoder::share_tables(Decoder& other) { state_->jpeg.share_tables(other.state_->jpeg); }

SampleError Decoder::decode_region(ByteSpan bytes, const Box& box, Image& storage, ImageView& region) {
  start_region(bytes, box, storage);
  if (decoding()) decode_on(*this, nullptr);
  return finish_region(region);
}

}  // namespace tessera::image
