#include <webp/decode.h>

#include <new>

#include "base/error.h"
#include "image/codec/codecs.h"

namespace tessera::image {
namespace {

DecodeFailure webp_error(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return {"truncated: the WebP data ends before the image does"};
    case VP8_STATUS_OUT_OF_MEMORY: throw std::bad_alloc();
    case VP8_STATUS_UNSUPPORTED_FEATURE: return {"WebP with a feature that is not supported"};
    default: return {fmt::format("damaged WebP (libwebp status {})", static_cast<int>(code))};
  }
}

SampleError read_features(ByteSpan bytes, WebPBitstreamFeatures& features) {
  if (const VP8StatusCode code = WebPGetFeatures(bytes.data(), bytes.size(), &features)) return webp_error(code);
  if (features.has_animation) return DecodeFailure{"an animated WebP, not a still image"};
  return std::nullopt;
}

// The pixels, and what libwebp holds of the whole image: one of four channels where it is lossless, which the features may
// leave open, alpha where there is some.
double memory(const WebPBitstreamFeatures& features) {
  const double pixels = double{1} * features.width * features.height;
  constexpr int kLossy = 1;
  return pixels * (Image::kChannels + (features.format == kLossy ? 0 : 4) + (features.has_alpha ? 1 : 0));
}

}  // namespace

SampleError probe_webp(ByteSpan bytes, ImageInfo& info) {
  WebPBitstreamFeatures features;
  if (SampleError failed = read_features(bytes, features)) return failed;
  info.width = features.width;
  info.height = features.height;
  return std::nullopt;
}

SampleError decode_webp(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs) {
  WebPDecoderConfig config;
  TESSERA_CHECK(WebPInitDecoderConfig(&config));
  if (SampleError failed = read_features(bytes, config.input)) return failed;
  if (SampleError failed = meter.check_size(config.input.width, config.input.height)) return failed;
  if (SampleError failed = meter.check_bytes(memory(config.input))) return failed;
  if (config.input.has_alpha) repairs.add(Repair::kAlpha);
  image.reset(config.input.width, config.input.height);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.row(0), static_cast<int>(image.stride()), image.byte_count()};
  if (const VP8StatusCode code = WebPDecode(bytes.data(), bytes.size(), &config)) return webp_error(code);
  return std::nullopt;
}

}  // namespace tessera::image
