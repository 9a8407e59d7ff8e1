#include "image/augment/tables.h"

#include <algorithm>
#include <numeric>

namespace tessera::image {
namespace {

using Channel = std::array<uint8_t, 256>;
using Counts = std::array<uint32_t, 256>;

Channel identity() {
  Channel values;
  std::iota(values.begin(), values.end(), uint8_t{0});
  return values;
}

// ImageOps.equalize: steps of equal counts; the last value's count is left out.
Channel equalized(const Counts& counts) {
  uint64_t total = 0, last = 0;
  int kinds = 0;
  for (const uint32_t count : counts) {
    total += count;
    if (count == 0) continue;
    last = count;
    ++kinds;
  }
  const uint64_t step = (total - last) / 255;
  if (kinds <= 1 || step == 0) return identity();
  Channel values;
  uint64_t sum = step / 2;
  for (size_t i = 0; i < 256; ++i) {
    values[i] = static_cast<uint8_t>(std::min<uint64_t>(sum / step, 255));
    sum += counts[i];
  }
  return values;
}

// ImageOps.autocontrast with nothing cut off.
Channel stretched(const Counts& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[static_cast<size_t>(low)] == 0) ++low;
  while (high > 0 && counts[static_cast<size_t>(high)] == 0) --high;
  if (high <= low) return identity();
  const double scale = 255.0 / (high - low), offset = -low * scale;
  Channel values;
  for (int i = 0; i < 256; ++i) {
    values[static_cast<size_t>(i)] = static_cast<uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
  }
  return values;
}

}  // namespace

Lut invert_table() {
  return same_for_channels([](int i) { return 255 - i; });
}

Lut posterize_table(int bits) {
  const int mask = ~((1 << std::clamp(8 - bits, 0, 8)) - 1);
  return same_for_channels([mask](int i) { return i & mask; });
}

Lut solarize_table(int threshold) {
  return same_for_channels([threshold](int i) { return i < threshold ? i : 255 - i; });
}

Lut solarize_add_table(int add) {
  return same_for_channels([add](int i) { return i < 128 ? std::clamp(i + add, 0, 255) : i; });
}

Lut blend_table(uint8_t degenerate, float factor) {
  Channel values;
  const Channel all = identity();
  Channel constant;
  constant.fill(degenerate);
  blend(constant.data(), all.data(), factor, values.size(), values.data());
  return {values, values, values};
}

Histogram histogram(const Image& image) {
  // Neighbours are often alike, and a counter can't be raised twice in a row without waiting: so two sets take turns.
  std::array<Histogram, 2> counts{};
  const uint8_t* at = image.row(0);
  const size_t pixels = image.byte_count() / 3;
  for (size_t i = 0; i < pixels; ++i, at += 3) {
    Histogram& set = counts[i % 2];
    ++set[0][at[0]];
    ++set[1][at[1]];
    ++set[2][at[2]];
  }
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 256; ++i) counts[0][c][i] += counts[1][c][i];
  }
  return counts[0];
}

Lut equalize_table(const Histogram& counts) { return {equalized(counts[0]), equalized(counts[1]), equalized(counts[2])}; }

Lut autocontrast_table(const Histogram& counts) { return {stretched(counts[0]), stretched(counts[1]), stretched(counts[2])}; }

}  // namespace tessera::image
