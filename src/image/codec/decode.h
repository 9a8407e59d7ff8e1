#pragma once
// Bytes of an image file -> RGB pixels. The format is recognised by content, never by a file's name.
//
// What comes out equals Pillow's Image.open(f).convert("RGB"):
//   JPEG  libjpeg-turbo with its accurate integer DCT and fancy upsampling; greyscale to three channels; CMYK and YCCK as
//         r = c k / 255 when the Adobe marker says that the values are inverted, else (255-c)(255-k)/255.
//   PNG   every bit depth and colour type; alpha is dropped; of 16-bit colour the high byte is kept; 16-bit grey is clamped at
//   255,
//         which is what Pillow's mode I;16 does. Wrong checksums are errors, which Pillow overlooks.
//   WebP  lossy and lossless, alpha dropped; animations are refused.
//   BMP   1, 4, 8, 16, 24 and 32 bits, run lengths, masks.
//   GIF   the first frame, on the picture's whole area; transparency is dropped.
//   TIFF  the first page, turned upright as its orientation says, which Pillow does too: grey, palettes, RGB and CMYK of up to 16
//         bits, in strips or tiles, with libtiff's compressions. Floats, 32-bit numbers, Lab and YCbCr without JPEG are refused.
// EXIF orientation of the others is ignored, as Pillow and TensorFlow do; exif.h reads it.

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "image/image.h"
#include "image/repairs.h"

namespace tessera::image {

enum class ImageFormat { kUnknown, kJpeg, kPng, kWebp, kBmp, kGif, kTiff, kPixels };  // kPixels: pixels_file.h
inline constexpr std::array kFileFormats = {ImageFormat::kJpeg, ImageFormat::kPng, ImageFormat::kWebp,
                                            ImageFormat::kBmp,  ImageFormat::kGif, ImageFormat::kTiff};
const char* format_name(ImageFormat format);  // "JPEG", "pixels", "unknown"
ImageFormat sniff_format(ByteSpan bytes);
// How names of such files end, in lower case and without a point, the most usual first: "jpg", "jpeg". Of kFileFormats.
std::span<const std::string_view> format_endings(ImageFormat format);
// The format whose files' names end like this one, in upper or lower case; kUnknown when it is no image's.
ImageFormat format_of_name(std::string_view name);

struct ImageInfo {
  ImageFormat format = ImageFormat::kUnknown;
  int width = 0, height = 0;
};

// Why an image could not be read, in words that follow a file's name: "truncated: …". A value, not an exception: the caller
// skips the file or stops, by its policy.
struct DecodeFailure {
  std::string reason;
};
using SampleError = std::optional<DecodeFailure>;  // nothing when it went well

struct DecodePolicy {
  // A JPEG that ends early is what libjpeg makes of it with an end marker behind it, as Pillow's is under
  // LOAD_TRUNCATED_IMAGES: what is missing of a sequential one is grey, of a progressive one detail, smoothed over (which
  // differs by a level between versions of libjpeg-turbo). Otherwise it is an error,
  // as a file of another format that ends early always is.
  bool fill_truncated = false;
};

// Pixels of a side. Resizing takes memory and time for each pixel of a side, whatever the other one: with 10^8 they were 1.4 GB
// and 7 s. Only PNG, BMP and TIFF can say more than 65,535.
inline constexpr int64_t kMaxSide = 1 << 20;

// What one image may cost, decoded and resized; what is over a limit is unreadable. The first three follow from the file alone,
// so that the same files are refused everywhere, and refused before anything is taken or decoded (scans: when the one too many
// begins).
struct DecodeLimits {
  int64_t pixels = 100'000'000;
  int64_t bytes = int64_t{512} << 20;  // of the whole image, and of what the library holds beside it
  int64_t scans = 100;                 // of a progressive JPEG
  // Of the thread's processor time, so that neither other work on the machine nor a slow disk counts. Whether a file is over it
  // depends on the processor: this is for hostile files that the limits above let through. It doesn't bind the usual JPEGs
  // (fast_jpeg.h) and WebP, whose time follows from their pixels, so that no ordinary data depends on a clock. 0: no limit.
  double seconds = 2;
};

// Keeps the libraries' state between images: one for each thread.
class Decoder {
 public:
  explicit Decoder(const DecodeLimits& limits = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // From the next image on. Decoding of a long one ends with an error soon after `stop`, which must outlive the decoder's work,
  // has become true; null: it doesn't.
  void set_limits(const DecodeLimits& limits, const std::atomic<bool>* stop);

  // Whether a picture of this size may be made of the image: it is within the limits too.
  [[nodiscard]] SampleError check_made(int width, int height) const;

  // Format and size, from the header alone.
  [[nodiscard]] SampleError probe(ByteSpan bytes, ImageInfo& info);

  // The whole image. A JPEG that ends early is an error, unless only the end marker is missing; other damage in its data is
  // decoded as far as libjpeg can, as Pillow does.
  [[nodiscard]] SampleError decode(ByteSpan bytes, Image& image);

  // The same pixels as decode() inside `box`, which must lie in the image. Of a JPEG only the rows and columns needed are
  // reconstructed, and reading stops after the last row: what is damaged below the box goes unseen. `region` borrows `storage`,
  // or `bytes` where those are pixels already.
  [[nodiscard]] SampleError decode_region(ByteSpan bytes, const Box& box, Image& storage, ImageView& region);

  // decode_region() in steps, so that two decoders of one thread can go on together, which takes less time than one after the
  // other: start; decode_on until decoding() is over, with any partner that is decoding, or none; finish. What start() is given
  // is borrowed until then.
  void start_region(ByteSpan bytes, const Box& box, Image& storage, const DecodePolicy& policy = {});
  bool decoding() const;
  // Until one of them is no longer decoding.
  static void decode_on(Decoder& first, Decoder* second);
  [[nodiscard]] SampleError finish_region(ImageView& region);
  // Of the last image that was decoded: of the part that was wanted of it.
  Repairs repairs() const;
  // For decoders that go on together: they then keep one set of tables. Not while decoding.
  void share_tables(Decoder& other);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::image
