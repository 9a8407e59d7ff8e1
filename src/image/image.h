#pragma once
// Images on the host: 8-bit RGB, interleaved, rows from the top. Storage is reused: a worker keeps its Image objects and
// reset() allocates only when a larger picture comes.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/padded_buffer.h"

namespace tessera::image {

// A rectangle in pixels; (x, y) is its upper left corner.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Box&) const = default;
};

// A borrowed rectangle of an Image. PaddedBuffer::kPadding bytes past its last pixel must be readable (an Image's are).
struct ImageView {
  const uint8_t* pixels = nullptr;
  int width = 0, height = 0;
  ptrdiff_t stride = 0;  // bytes from a row to the next

  const uint8_t* row(int y) const { return pixels + y * stride; }
  // `box` must lie inside.
  ImageView crop(const Box& box) const;
};

class Image {
 public:
  static constexpr int kChannels = 3;

  Image() = default;
  Image(int width, int height) { reset(width, height); }
  // Sets the size; the pixels are undefined afterwards.
  void reset(int width, int height);
  int width() const { return width_; }
  int height() const { return height_; }
  ptrdiff_t stride() const { return ptrdiff_t{width_} * kChannels; }
  uint8_t* row(int y) { return buffer_.data() + y * stride(); }
  const uint8_t* row(int y) const { return buffer_.data() + y * stride(); }
  size_t byte_count() const { return static_cast<size_t>(stride()) * static_cast<size_t>(height_); }
  size_t capacity() const { return buffer_.capacity(); }
  ByteSpan bytes() const { return {buffer_.data(), byte_count()}; }
  ImageView view() const { return {buffer_.data(), width_, height_, stride()}; }

 private:
  int width_ = 0, height_ = 0;
  PaddedBuffer buffer_;
};

// Copies a view, mirrored left to right when asked, to rows `stride` bytes apart.
void copy_image(const ImageView& from, bool mirror, uint8_t* to, ptrdiff_t stride);

}  // namespace tessera::image
