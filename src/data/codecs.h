#pragma once
// The three codecs behind Decoder. What was unusual is added to `repairs`. Only decode.cc, the decode_*.cc files and tests
// include this.

#include <memory>

#include "data/decode.h"

namespace tessera::data {

// Usual files by the decoder of our own (jpeg_usual.h); all others, and damaged ones, by libjpeg. What comes out is the same.
class JpegDecoder {
 public:
  explicit JpegDecoder(bool library_only = false);
  ~JpegDecoder();
  DecodeResult probe(Bytes bytes, int64_t max_pixels, ImageInfo& info);
  // All of the image when `box` is null.
  DecodeResult decode(Bytes bytes, int64_t max_pixels, const Box* box, Image& storage, ImageView& region);

  // The same in steps (Decoder's).
  void start(Bytes bytes, int64_t max_pixels, const Box* box, Image& storage, const DecodePolicy& policy = {});
  void abandon();  // whatever was started
  bool decoding() const;
  static void decode_on(JpegDecoder& first, JpegDecoder* second);
  DecodeResult finish(ImageView& region);
  Repairs repairs() const;  // of the last image
  void share_tables(JpegDecoder& other);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

DecodeResult probe_png(Bytes bytes, ImageInfo& info);
DecodeResult decode_png(Bytes bytes, int64_t max_pixels, Image& image, Repairs& repairs);
DecodeResult probe_webp(Bytes bytes, ImageInfo& info);
DecodeResult decode_webp(Bytes bytes, int64_t max_pixels, Image& image, Repairs& repairs);

// An error when width x height is not positive or over the limit.
DecodeResult check_size(int64_t width, int64_t height, int64_t max_pixels);

// round(a b / 255), exact for a and b in 0..255.
inline uint8_t multiply_255(unsigned a, unsigned b) {
  const unsigned t = a * b + 128;
  return static_cast<uint8_t>((t + (t >> 8)) >> 8);
}

}  // namespace tessera::data
