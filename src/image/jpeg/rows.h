#pragma once
// From rows of decoded components to RGB: libjpeg's "fancy" upsampling of chroma and its conversion of YCbCr, with the same
// rounding. All of these write whole vectors: kOverrun bytes past the end of `out` belong to it, and kOverrun past the end of
// the input are read. Upsampling also reads the sample before the first.

#include <cstddef>
#include <cstdint>

namespace tessera::image::jpeg_rows {

inline constexpr ptrdiff_t kOverrun = 64;

// Twice the columns: 2 `count` samples, each 3/4 the sample it lies in and 1/4 the nearest other.
void upsample_columns(const uint8_t* in, int count, uint8_t* out);
// Twice the rows: 3/4 of `near`, 1/4 of `far`, which is the row above for an upper row and the row below for a lower one.
void upsample_rows(const uint8_t* near, const uint8_t* far, bool lower, int count, uint8_t* out);
// Both: 2 `count` samples.
void upsample_both(const uint8_t* near, const uint8_t* far, int count, uint8_t* out);

// RGB, `count` pixels and no more.
void convert_ycc(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* out);
void convert_grey(const uint8_t* y, int count, uint8_t* out);

}  // namespace tessera::image::jpeg_rows
