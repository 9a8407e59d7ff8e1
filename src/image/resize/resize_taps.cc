// The taps of an axis, and the resize written plainly.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/bicubic.h"
#include "base/error.h"
#include "image/resize/resize.h"

namespace tessera::image {
namespace {

constexpr int kPrecision = 22;

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double box_weight(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

double bilinear_weight(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

double hamming_weight(double x) {
  x = std::abs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}

double lanczos_weight(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

struct FilterEntry {
  Filter filter;
  const char* name;
  double support;
  double (*weight)(double);
};
constexpr std::array kFilters = {
    FilterEntry{Filter::kNearest, "nearest", 0, nullptr},           FilterEntry{Filter::kBox, "box", 0.5, box_weight},
    FilterEntry{Filter::kBilinear, "bilinear", 1, bilinear_weight}, FilterEntry{Filter::kHamming, "hamming", 1, hamming_weight},
    FilterEntry{Filter::kBicubic, "bicubic", 2, bicubic_weight},    FilterEntry{Filter::kLanczos, "lanczos", 3, lanczos_weight},
};
const FilterEntry& entry(Filter filter) { return kFilters[static_cast<size_t>(filter)]; }

void set_weight(ResizeTaps& taps, int x, int tap, int32_t weight) {
  const size_t at = static_cast<size_t>(x) * static_cast<size_t>(taps.pairs) + static_cast<size_t>(tap / 2);
  const int shift = 16 * (tap % 2);
  const int32_t high = weight >> 8;
  TESSERA_CHECK(high == static_cast<int16_t>(high), "weight {}", weight);
  taps.high[at] |= static_cast<uint32_t>(static_cast<uint16_t>(high)) << shift;
  taps.low[at] |= static_cast<uint32_t>(weight & 255) << shift;
  const size_t four = (static_cast<size_t>(x) * static_cast<size_t>(taps.fours()) + static_cast<size_t>(tap / 4)) * 3;
  for (size_t digit = 0; digit < 3; ++digit) {
    const auto value = static_cast<int8_t>(weight);
    taps.digits[four + digit] |= static_cast<uint32_t>(static_cast<uint8_t>(value)) << (8 * (tap % 4));
    weight = (weight - value) >> 8;
  }
}

void size_taps(ResizeTaps& taps, int most) {
  taps.pairs = (most + 1) / 2;
  taps.first.resize(static_cast<size_t>(taps.out));
  taps.high.assign(static_cast<size_t>(taps.out) * static_cast<size_t>(taps.pairs), 0);
  taps.low = taps.high;
  taps.digits.assign(static_cast<size_t>(taps.out) * static_cast<size_t>(taps.fours()) * 3, 0);
}

// Pillow steps through the input by repeated addition, so that its rounding errors are part of the definition.
template <class Visit>
void visit_nearest(int in, int out, Span outputs, const Visit& visit) {
  const double scale = static_cast<double>(in) / out;
  double at = scale * 0.5;
  for (int x = 0; x < outputs.begin + outputs.count; ++x, at += scale) {
    if (x >= outputs.begin) visit(x - outputs.begin, std::min(static_cast<int>(at), in - 1));
  }
}

void nearest_taps(const ResizeAxis& axis, ResizeTaps& taps) {
  size_taps(taps, 1);
  visit_nearest(axis.in, axis.out, axis.outputs, [&](int x, int source) {
    taps.first[static_cast<size_t>(x)] = source - axis.inputs.begin;
    set_weight(taps, x, 0, 1 << kPrecision);
  });
}

// Which inputs an output takes, and how much a filter is stretched.
struct Reach {
  int in;
  double scale, stretch, support;

  Reach(int inputs, int outputs, Filter filter)
      : in(inputs),
        scale(static_cast<double>(inputs) / outputs),
        stretch(std::max(scale, 1.0)),
        support(entry(filter).support * stretch) {}
  double center(int x) const { return (x + 0.5) * scale; }
  int begin(int x) const { return std::max(0, static_cast<int>(center(x) - support + 0.5)); }
  int end(int x) const { return std::min(in, static_cast<int>(center(x) + support + 0.5)); }
};

int32_t fixed_point(double weight) {
  const double scaled = weight * (1 << kPrecision);
  return static_cast<int32_t>(weight < 0 ? scaled - 0.5 : scaled + 0.5);
}

uint8_t clamp_sum(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kPrecision, 0, 255)); }

}  // namespace

const char* filter_name(Filter filter) { return entry(filter).name; }

std::optional<Filter> parse_filter(std::string_view name) {
  for (const FilterEntry& e : kFilters) {
    if (name == e.name) return e.filter;
  }
  return std::nullopt;
}

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const FilterEntry& e : kFilters) names.emplace_back(e.name);
  return names;
}

int32_t ResizeTaps::weight(int x, int tap) const {
  const size_t at = static_cast<size_t>(x) * static_cast<size_t>(pairs) + static_cast<size_t>(tap / 2);
  const int shift = 16 * (tap % 2);
  return static_cast<int16_t>(high[at] >> shift) * 256 + static_cast<int32_t>((low[at] >> shift) & 0xFFFF);
}

ResizeAxis whole_axis(int in, int out) { return {in, out, {0, in}, {0, out}}; }

Span needed_inputs(int in, int out, Span outputs, Filter filter) {
  const int last = outputs.begin + outputs.count - 1;
  if (filter == Filter::kNearest) {
    int first = in, end = 0;
    visit_nearest(in, out, outputs, [&](int, int source) {
      first = std::min(first, source);
      end = std::max(end, source + 1);
    });
    return {first, end - first};
  }
  const Reach reach(in, out, filter);
  const int first = reach.begin(outputs.begin);
  return {first, reach.end(last) - first};
}

Box needed_input(const ResizeWindow& window, Filter filter) {
  const Box& box = window.box;
  const Span across = needed_inputs(window.in_width, window.width, {box.x, box.width}, filter);
  const Span down = needed_inputs(window.in_height, window.height, {box.y, box.height}, filter);
  return {across.begin, down.begin, across.count, down.count};
}

ResizeTaps make_taps(const ResizeAxis& axis, Filter filter) {
  TESSERA_CHECK(axis.in > 0 && axis.out > 0, "{} -> {}", axis.in, axis.out);
  ResizeTaps taps;
  taps.in = axis.inputs.count;
  taps.out = axis.outputs.count;
  if (filter == Filter::kNearest) {
    nearest_taps(axis, taps);
    return taps;
  }
  const Reach reach(axis.in, axis.out, filter);
  const double shrink = 1.0 / reach.stretch;
  int most = 1;
  for (int i = 0; i < axis.outputs.count; ++i) {
    const int x = axis.outputs.begin + i;
    most = std::max(most, reach.end(x) - reach.begin(x));
  }
  size_taps(taps, most);
  std::vector<double> weights(static_cast<size_t>(most));
  for (int i = 0; i < axis.outputs.count; ++i) {
    const int x = axis.outputs.begin + i;
    const int first = reach.begin(x), count = reach.end(x) - first;
    double sum = 0;
    for (int t = 0; t < count; ++t) {
      sum += weights[static_cast<size_t>(t)] = entry(filter).weight((t + first - reach.center(x) + 0.5) * shrink);
    }
    const int here = first - axis.inputs.begin;
    const int window = std::max(0, std::min(here, taps.in - 2 * taps.pairs));
    for (int t = 0; t < count; ++t) {
      const double weight = weights[static_cast<size_t>(t)];
      set_weight(taps, i, t + here - window, fixed_point(sum != 0 ? weight / sum : weight));
    }
    taps.first[static_cast<size_t>(i)] = window;
  }
  return taps;
}

bool down_first(const ResizeWindow& window) {
  const int lost = window.in_height - window.height;
  return lost > 0 && lost > 2 * (window.in_width - window.width);
}

namespace {

int taps_inside(const ResizeTaps& taps, int x) {
  return std::min(taps.pairs * 2, taps.in - taps.first[static_cast<size_t>(x)]);
}

Image across_plain(const ImageView& from, const ResizeTaps& taps, bool mirror) {
  Image out(taps.out, from.height);
  for (int y = 0; y < from.height; ++y) {
    for (int i = 0; i < taps.out * 3; ++i) {
      const int x = i / 3, first = taps.first[static_cast<size_t>(x)];
      int32_t sum = 1 << (kPrecision - 1);
      for (int t = 0; t < taps_inside(taps, x); ++t) sum += taps.weight(x, t) * from.row(y)[(first + t) * 3 + i % 3];
      out.row(y)[(mirror ? taps.out - 1 - x : x) * 3 + i % 3] = clamp_sum(sum);
    }
  }
  return out;
}

Image down_plain(const ImageView& from, const ResizeTaps& taps) {
  Image out(from.width, taps.out);
  for (int y = 0; y < taps.out; ++y) {
    const int first = taps.first[static_cast<size_t>(y)];
    for (int i = 0; i < from.width * 3; ++i) {
      int32_t sum = 1 << (kPrecision - 1);
      for (int t = 0; t < taps_inside(taps, y); ++t) sum += taps.weight(y, t) * from.row(first + t)[i];
      out.row(y)[i] = clamp_sum(sum);
    }
  }
  return out;
}

}  // namespace

void resize_plain(const ImageView& from, Filter filter, bool mirror, int width, int height, uint8_t* to, ptrdiff_t stride) {
  const ResizeTaps across = make_taps(whole_axis(from.width, width), filter);
  const ResizeTaps down = make_taps(whole_axis(from.height, height), filter);
  const Image out = down_first({from.width, from.height, width, height, {}})
                        ? across_plain(down_plain(from, down).view(), across, mirror)
                        : down_plain(across_plain(from, across, mirror).view(), down);
  copy_image(out.view(), false, to, stride);
}

}  // namespace tessera::image
