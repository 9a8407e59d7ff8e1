#pragma once
// Work on every byte or pixel of an image, in the vector code of this machine. Pictures are interleaved RGB without gaps
// between rows; `count` is a number of bytes or pixels. Each function is bit for bit what its formula says, on every
// instruction set.

#include <array>
#include <cstddef>
#include <cstdint>

#include "image/image.h"

namespace tessera::image {

// A table for each channel.
using Lut = std::array<std::array<uint8_t, 256>, 3>;
// pixels[i] = lut[i % 3][pixels[i]].
void apply_lut(const Lut& lut, Image& image);

// Pillow's grey (its conversion to L): (19595 r + 38470 g + 7471 b + 32768) >> 16.
uint64_t grey_sum(const Image& image);  // over all pixels
void to_grey(Image& image);             // in all three channels

// Pillow's Image.blend: trunc(a + alpha (b - a)) in float32, clamped to 0..255. `out` may be `a` or `b`.
void blend(const uint8_t* a, const uint8_t* b, float alpha, size_t count, uint8_t* out);
// blend(grey, pixel, alpha) with the grey above: ImageEnhance.Color, which is saturation.
void blend_with_grey(Image& image, float alpha);

// The 3x3 means round the bytes of a row: round((above + row + below, with the centre counted five times) / 13), for
// count bytes from the second pixel on; neighbours lie three bytes apart. Pillow's ImageFilter.SMOOTH.
void smooth_row(const uint8_t* above, const uint8_t* row, const uint8_t* below, size_t count, uint8_t* out);

// One step of a running box mean, for `count` columns: sums[i] += add[i] - drop[i];
// out[i] = (sums[i] whole + (before[i] + after[i]) part + 2^23) >> 24, modulo 2^32.
struct BoxStep {
  const uint8_t *drop, *add, *before, *after;
  uint32_t whole, part;
};
void box_step(const BoxStep& step, uint32_t* sums, size_t count, uint8_t* out);

// A symmetric filter across rows: out[i] = sum over k of weights[k] (above[k][i] + below[k][i]); the middle row,
// above[0], counts once. In float32, from the middle outwards.
struct RowFilter {
  const uint8_t *const *above, *const *below;
  const float* weights;
  size_t taps;  // the middle and those to one side
};
void filter_rows(const RowFilter& filter, size_t count, float* out);
// The same along a row, where neighbours lie three floats apart; rounds half to even. Reads 3 (taps - 1) floats before and
// after the `count`; `row` must be readable to a multiple of 16 floats.
void filter_row(const float* row, const float* weights, size_t taps, size_t count, uint8_t* out);

}  // namespace tessera::image
