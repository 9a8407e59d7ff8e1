#pragma once
// Antialiased resizing, bit for bit equal to Pillow's Image.resize on 8-bit RGB.
//
// With s = in/out, f = max(s, 1) and S = support f, output x is centred at c = (x + 1/2) s and takes inputs k from
// int(c - S + 1/2) up to int(c + S + 1/2), clamped to the image, with weight filter((k - c + 1/2) / f), normalised to sum 1 and
// rounded to 22-bit fixed point. Along rows first, then along columns; as in Pillow since 13.0 the other way round where the
// height shrinks, and by more than twice the pixels that the width does. Each pass rounds to uint8: (sum + 2^21) >> 22,
// clamped. Cropping comes before: a resized view knows nothing of the pixels around it (Pillow's crop().resize(), not its
// resize(box=…)).

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "image/image.h"

namespace tessera::image {

// Supports: 0.5 (box), 1 (bilinear, hamming), 2 (bicubic, a = -1/2), 3 (lanczos). Nearest takes one input a pixel.
enum class Filter : uint8_t { kNearest, kBox, kBilinear, kHamming, kBicubic, kLanczos };
const char* filter_name(Filter filter);
std::optional<Filter> parse_filter(std::string_view name);
std::vector<std::string> filter_names();

// The taps of one axis. Output x is the sum over t < 2 * pairs of input[first[x] + t] * weight(x, t). Every output has the same
// number of taps, so that loops over them are predicted; the ones too many have weight zero, and at most one of them lies past
// the input's end. Weights are kept as the vector code reads them, in two forms. In pairs: a 32-bit entry holds those of taps
// 2j (low half) and 2j + 1 (high half), split as weight = high * 256 + low with low in 0..255. In fours: three 32-bit entries
// hold the digits d0, d1, d2 in -128..127 of taps 4j .. 4j + 3, a byte each, with weight = (d2 * 256 + d1) * 256 + d0.
// The outputs may be a part of the axis; `in` and `out` then count what is there of it.
struct ResizeTaps {
  int in = 0, out = 0;
  int pairs = 0;                    // entries for each output
  std::vector<int32_t> first;       // [out]
  std::vector<uint32_t> high, low;  // [out * pairs]
  int fours() const { return (pairs + 1) / 2; }
  std::vector<uint32_t> digits;  // [out * fours() * 3]
  int32_t weight(int x, int tap) const;
};

// A part of a range of pixels along an axis.
struct Span {
  int begin = 0, count = 0;
  bool operator==(const Span&) const = default;
};
// An axis of `in` pixels resized to `out`. Only `outputs` are computed, from `inputs`, which must hold needed_inputs(); the
// weights are those of the whole axis.
struct ResizeAxis {
  int in = 0, out = 0;
  Span inputs, outputs;
  bool operator==(const ResizeAxis&) const = default;
};
ResizeAxis whole_axis(int in, int out);
Span needed_inputs(int in, int out, Span outputs, Filter filter);
ResizeTaps make_taps(const ResizeAxis& axis, Filter filter);

// A resize of a whole image to width x height, computed only inside `box`.
struct ResizeWindow {
  int in_width = 0, in_height = 0, width = 0, height = 0;
  Box box;
};
// Whether columns come first.
bool down_first(const ResizeWindow& window);
// The part of the input that the box depends on.
Box needed_input(const ResizeWindow& window, Filter filter);

// Resizes with scratch memory and tables of its own: one for each thread.
class Resizer {
 public:
  Resizer();
  ~Resizer();
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;

  // Writes width x height pixels to `to`, rows `stride` bytes apart, mirrored left to right when asked (after resizing).
  void resize(const ImageView& from, Filter filter, bool mirror, int width, int height, uint8_t* to, ptrdiff_t stride);
  // Only window.box, bit for bit as if cut out of the whole result; a mirror turns the box. `from` is the part `input` of the
  // window's input, which holds needed_input(window, filter).
  void resize_window(const ImageView& from, const Box& input, const ResizeWindow& window, Filter filter, bool mirror,
                     uint8_t* to, ptrdiff_t stride);
  size_t scratch_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The formula written plainly: what the vector code is tested against.
void resize_plain(const ImageView& from, Filter filter, bool mirror, int width, int height, uint8_t* to, ptrdiff_t stride);

}  // namespace tessera::image
