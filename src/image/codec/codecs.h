#pragma once
// The codecs behind Decoder. What was unusual is added to `repairs`. Only decode.cc, the decode_*.cc files and tests
// include this.

#include <memory>

#include "image/codec/decode.h"

namespace tessera::image {

// What one image may cost, while it is decoded.
class DecodeMeter {
 public:
  DecodeMeter(const DecodeLimits& limits, const std::atomic<bool>* stop) : limits_(limits), stop_(stop) {}

  // Before an image that may take long.
  void start();
  // Called often, whenever some of it is done: why decoding has to end, or null. The words live as long as the meter, and
  // nothing here has to be destroyed, since libjpeg may leave by longjmp.
  const char* over();
  SampleError check_size(int64_t width, int64_t height) const;
  // `bytes` is what the header says of the whole image, and what the library will hold beside it.
  SampleError check_bytes(double bytes) const;
  const DecodeLimits& limits() const { return limits_; }

 private:
  static constexpr int kCallsBetweenLooks = 8;  // at the clock, which is a call to the system
  DecodeLimits limits_;
  const std::atomic<bool>* stop_;
  int calls_ = 0;
  double end_ = 0;  // in the thread's processor time
  char words_[128] = {};
};

// Usual files by the decoder of our own (fast_jpeg.h); all others, and damaged ones, by libjpeg. What comes out is the same.
class JpegDecoder {
 public:
  explicit JpegDecoder(bool library_only = false);
  ~JpegDecoder();
  SampleError probe(ByteSpan bytes, const DecodeMeter& meter, ImageInfo& info);
  // All of the image when `box` is null.
  SampleError decode(ByteSpan bytes, DecodeMeter& meter, const Box* box, Image& storage, ImageView& region);

  // The same in steps (Decoder's).
  void start(ByteSpan bytes, DecodeMeter& meter, const Box* box, Image& storage, const DecodePolicy& policy = {});
  void abandon();  // whatever was started
  bool decoding() const;
  static void decode_on(JpegDecoder& first, JpegDecoder* second);
  SampleError finish(ImageView& region);
  Repairs repairs() const;  // of the last image
  void share_tables(JpegDecoder& other);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

SampleError probe_png(ByteSpan bytes, ImageInfo& info);
SampleError decode_png(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs);
SampleError probe_webp(ByteSpan bytes, ImageInfo& info);
SampleError decode_webp(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs);
bool is_bmp(ByteSpan bytes);
SampleError probe_bmp(ByteSpan bytes, ImageInfo& info);
SampleError decode_bmp(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs);
SampleError probe_gif(ByteSpan bytes, ImageInfo& info);
SampleError decode_gif(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs);
bool is_tiff(ByteSpan bytes);
SampleError probe_tiff(ByteSpan bytes, const DecodeMeter& meter, ImageInfo& info);
SampleError decode_tiff(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs);

// round(a b / 255), exact for a and b in 0..255.
inline uint8_t multiply_255(unsigned a, unsigned b) {
  const unsigned t = a * b + 128;
  return static_cast<uint8_t>((t + (t >> 8)) >> 8);
}

}  // namespace tessera::image
