#pragma once
// tf.image.resize of TensorFlow 2 on 8-bit RGB followed by big_vision's cast (clamped to 0..255, the fraction cut off): what
// big_vision's resize ops compute, in float32 in TensorFlow's order.
//
// Without antialias: bilinear takes the two nearest pixels along each axis with half-pixel centres, bicubic four (a = -1/2,
// weights from a table of 1024 positions), both blind to what lies between when shrinking; nearest takes one; area the mean of
// the covered rectangle. With antialias, bilinear and bicubic widen as Pillow's do, first down the columns, then along the
// rows, unrounded in between; nearest and area are as without.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/image.h"
#include "image/resize/tensorflow_bilinear.h"

namespace tessera::image {

enum class TensorflowFilter : uint8_t { kNearest, kBilinear, kBicubic, kArea };
const char* tensorflow_filter_name(TensorflowFilter filter);
std::optional<TensorflowFilter> parse_tensorflow_filter(std::string_view name);
std::vector<std::string> tensorflow_filter_names();

struct TensorflowMethod {
  TensorflowFilter filter = TensorflowFilter::kBilinear;
  bool antialias = false;
};

// With memory of its own: one for each thread.
class TensorflowResizer {
 public:
  // Writes width x height pixels to `to`, without gaps between rows, mirrored left to right when asked (after resizing).
  void resize(const ImageView& from, const TensorflowMethod& method, bool mirror, int width, int height, uint8_t* to);
  size_t scratch_bytes() const {
    return line_.capacity() * sizeof(float) + taps_.capacity() * sizeof(LinearTap) + bytes_.capacity();
  }

 private:
  std::vector<float> line_;  // a row between the two axes
  std::vector<LinearTap> taps_;
  PaddedBuffer bytes_;
};

}  // namespace tessera::image
