#pragma once
// The picture that pixel operations change: the image itself, a second one of any size to write into, and what single
// operations need besides. One for each thread, reused from sample to sample, so that nothing is allocated once it has grown.

#include <array>
#include <utility>
#include <vector>

#include "image/image.h"

namespace tessera::image {

using Rgb = std::array<uint8_t, 3>;

class Canvas {
 public:
  // Contiguous rows of 8-bit RGB. PaddedBuffer::kPadding bytes past the last pixel may be written too.
  Image& image() { return images_[current_]; }
  const Image& image() const { return images_[current_]; }
  // The other image, made width x height; its pixels are undefined until written. swap() makes it the picture.
  Image& next(int width, int height) {
    Image& other = images_[current_ ^ 1];
    other.reset(width, height);
    return other;
  }
  Image& next() { return next(image().width(), image().height()); }
  void swap() { current_ ^= 1; }

  PaddedBuffer row;               // of an operation that goes row by row
  std::vector<uint32_t> columns;  // sums, one for each byte of a row
  std::vector<float> sums;        // of several pictures
  Image kept, result;             // of a mix: the picture as it was, and what became of it so far

  size_t bytes() const {
    return images_[0].capacity() + images_[1].capacity() + row.capacity() + kept.capacity() + result.capacity() +
           (columns.capacity() + sums.capacity()) * 4;
  }

 private:
  std::array<Image, 2> images_;
  size_t current_ = 0;
};

}  // namespace tessera::image
