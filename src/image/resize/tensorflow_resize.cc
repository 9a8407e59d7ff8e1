#include "image/resize/tensorflow_resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace tessera::image {
namespace {

constexpr std::array<std::pair<TensorflowFilter, const char*>, 4> kNames = {{{TensorflowFilter::kNearest, "nearest"},
                                                                             {TensorflowFilter::kBilinear, "bilinear"},
                                                                             {TensorflowFilter::kBicubic, "bicubic"},
                                                                             {TensorflowFilter::kArea, "area"}}};

uint8_t cut(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

float scale_of(int in, int out) { return static_cast<float>(in) / static_cast<float>(out); }

float half_pixel(int at, float scale) { return (static_cast<float>(at) + 0.5f) * scale - 0.5f; }

// Where one output's inputs lie and what they weigh.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

LinearTap linear_at(int at, int in, float scale) {
  const float where = half_pixel(at, scale), whole = std::floor(where);
  return {std::max(static_cast<int>(whole), 0), std::min(static_cast<int>(std::ceil(where)), in - 1), where - whole};
}

// The Keys kernel (a = -1/2) at distance `x`, in float64 as the table of positions is made.
float table_weight(int position, bool near) {
  constexpr double a = -0.5;
  const auto x = static_cast<float>(position / 1024.0);
  if (near) return static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1);
  const auto far = static_cast<float>(x + 1.0);
  return static_cast<float>(((a * far - 5 * a) * far + 8 * a) * far - 4 * a);
}

// Four taps from a table; those outside the image weigh nothing, and the others are scaled to the sum 1.
struct Four {
  std::array<int, 4> at;
  std::array<float, 4> weight;
};

Four four_at(int at, int in, float scale) {
  const float where = half_pixel(at, scale);
  const int whole = static_cast<int>(std::floor(where));
  const int position = static_cast<int>(std::lrintf((where - static_cast<float>(whole)) * 1024));
  const std::array<float, 4> kernel = {table_weight(position, false), table_weight(position, true),
                                       table_weight(1024 - position, true), table_weight(1024 - position, false)};
  Four four{};
  for (int t = 0; t < 4; ++t) {
    const auto i = static_cast<size_t>(t);
    const int wanted = whole - 1 + t;
    four.at[i] = std::clamp(wanted, 0, in - 1);
    four.weight[i] = four.at[i] == wanted ? kernel[i] : 0.0f;
  }
  const float sum = four.weight[0] + four.weight[1] + four.weight[2] + four.weight[3];
  const float inverse = 1.0f / sum;
  for (float& weight : four.weight) weight *= inverse;
  return four;
}

// The covered pixels from `first` on, each weighted by the part of it that is covered.
Taps area_at(int at, float scale) {
  const float from = static_cast<float>(at) * scale, to = static_cast<float>(at + 1) * scale;
  const int begin = static_cast<int>(std::floor(from)), end = static_cast<int>(std::ceil(to));
  Taps taps;
  taps.first = begin;
  for (int i = begin; i < end; ++i) {
    const auto left = static_cast<float>(i), right = static_cast<float>(i + 1);
    const float part = left < from ? (right > to ? scale : right - from) : (right > to ? to - left : 1.0f);
    taps.weights.push_back(part);
  }
  return taps;
}

float triangle(float x) { return x < 1.0f ? 1.0f - x : 0.0f; }

float keys_cubic(float x) {
  if (x >= 2.0f) return 0.0f;
  if (x >= 1.0f) return ((-0.5f * x + 2.5f) * x - 4.0f) * x + 2.0f;
  return ((1.5f * x - 2.5f) * x) * x + 1.0f;
}

// The taps of an antialiased axis.
std::vector<Taps> stretched_taps(int in, int out, TensorflowFilter filter) {
  const bool cubic = filter == TensorflowFilter::kBicubic;
  const float radius = cubic ? 2.0f : 1.0f;
  const auto inverse = static_cast<float>(1.0 / static_cast<double>(static_cast<float>(out) / static_cast<float>(in)));
  const float stretch = std::max(inverse, 1.0f), shrink = 1.0f / stretch;
  std::vector<Taps> all(static_cast<size_t>(out));
  for (int x = 0; x < out; ++x) {
    Taps& taps = all[static_cast<size_t>(x)];
    const float center = (static_cast<float>(x) + 0.5f) * inverse;
    const auto bound = [in](float v) { return std::clamp(static_cast<int>(v), 0, in - 1); };
    const int begin = bound(std::ceil(center - radius * stretch - 0.5f));
    const int end = bound(std::floor(center + radius * stretch - 0.5f)) + 1;
    taps.first = begin;
    float sum = 0;
    for (int source = begin; source < end; ++source) {
      const float distance = std::abs((static_cast<float>(source) + 0.5f - center) * shrink);
      taps.weights.push_back(cubic ? keys_cubic(distance) : triangle(distance));
      sum += taps.weights.back();
    }
    if (std::abs(sum) < 1000.0f * std::numeric_limits<float>::min()) {
      std::ranges::fill(taps.weights, 0.0f);
      continue;
    }
    const float whole = 1.0f / sum;
    for (float& weight : taps.weights) weight *= whole;
  }
  return all;
}

struct Job {
  const ImageView& from;
  int width, height;
  bool mirror;
  uint8_t* to;

  uint8_t* out(int x, int y) const { return to + (ptrdiff_t{y} * width + (mirror ? width - 1 - x : x)) * 3; }
};

void nearest(const Job& job) {
  const float across = scale_of(job.from.width, job.width), down = scale_of(job.from.height, job.height);
  const auto source = [](int at, float scale, int in) {
    return std::min(static_cast<int>(std::floor((static_cast<float>(at) + 0.5f) * scale)), in - 1);
  };
  for (int y = 0; y < job.height; ++y) {
    const uint8_t* row = job.from.row(source(y, down, job.from.height));
    for (int x = 0; x < job.width; ++x) std::copy_n(row + source(x, across, job.from.width) * 3, 3, job.out(x, y));
  }
}

void bilinear(const Job& job, std::vector<LinearTap>& columns, PaddedBuffer& line) {
  const float across = scale_of(job.from.width, job.width), down = scale_of(job.from.height, job.height);
  columns.clear();
  for (int x = 0; x < job.width; ++x) columns.push_back(linear_at(x, job.from.width, across));
  if (job.mirror) std::ranges::reverse(columns);
  const auto row_bytes = static_cast<size_t>(job.width) * 3;
  line.reset(row_bytes);
  for (int y = 0; y < job.height; ++y) {
    const LinearTap tap = linear_at(y, job.from.height, down);
    bilinear_row(job.from.row(tap.lower), job.from.row(tap.upper), tap.part, columns.data(), columns.size(), line.data());
    std::memcpy(job.to + static_cast<size_t>(y) * row_bytes, line.data(), row_bytes);
  }
}

float dot(const std::array<float, 4>& weights, const std::array<float, 4>& values) {
  return values[0] * weights[0] + values[1] * weights[1] + values[2] * weights[2] + values[3] * weights[3];
}

void bicubic(const Job& job, std::vector<float>& line) {
  const float across = scale_of(job.from.width, job.width), down = scale_of(job.from.height, job.height);
  std::vector<Four> columns;
  for (int x = 0; x < job.width; ++x) columns.push_back(four_at(x, job.from.width, across));
  line.resize(static_cast<size_t>(job.from.width) * 3);
  for (int y = 0; y < job.height; ++y) {
    const Four rows = four_at(y, job.from.height, down);
    const auto row = [&](size_t t) { return job.from.row(rows.at[t]); };
    const uint8_t *r0 = row(0), *r1 = row(1), *r2 = row(2), *r3 = row(3);
    for (size_t i = 0; i < line.size(); ++i) {
      line[i] = dot(rows.weight, {static_cast<float>(r0[i]), static_cast<float>(r1[i]), static_cast<float>(r2[i]),
                                  static_cast<float>(r3[i])});
    }
    for (int x = 0; x < job.width; ++x) {
      const Four& four = columns[static_cast<size_t>(x)];
      uint8_t* to = job.out(x, y);
      for (int c = 0; c < 3; ++c) {
        const auto value = [&](size_t t) { return line[static_cast<size_t>(four.at[t] * 3 + c)]; };
        to[c] = cut(dot(four.weight, {value(0), value(1), value(2), value(3)}));
      }
    }
  }
}

void area(const Job& job) {
  const float across = scale_of(job.from.width, job.width), down = scale_of(job.from.height, job.height);
  const auto whole = static_cast<float>(1.0 / static_cast<double>(down * across));
  std::vector<Taps> columns;
  for (int x = 0; x < job.width; ++x) columns.push_back(area_at(x, across));
  const auto inside = [](int at, int count) { return std::clamp(at, 0, count - 1); };
  for (int y = 0; y < job.height; ++y) {
    const Taps rows = area_at(y, down);
    for (int x = 0; x < job.width; ++x) {
      const Taps& taps = columns[static_cast<size_t>(x)];
      std::array<float, 3> sum{};
      for (size_t j = 0; j < rows.weights.size(); ++j) {
        const uint8_t* row = job.from.row(inside(rows.first + static_cast<int>(j), job.from.height));
        std::array<float, 3> line{};
        for (size_t i = 0; i < taps.weights.size(); ++i) {
          const uint8_t* pixel = row + inside(taps.first + static_cast<int>(i), job.from.width) * 3;
          for (size_t c = 0; c < 3; ++c) line[c] += static_cast<float>(pixel[c]) * taps.weights[i];
        }
        for (size_t c = 0; c < 3; ++c) sum[c] += line[c] * rows.weights[j];
      }
      for (size_t c = 0; c < 3; ++c) job.out(x, y)[c] = cut(sum[c] * whole);
    }
  }
}

// Down the columns for every output row, then along it.
void antialiased(const Job& job, TensorflowFilter filter, std::vector<float>& line) {
  const std::vector<Taps> columns = stretched_taps(job.from.width, job.width, filter);
  const std::vector<Taps> rows = stretched_taps(job.from.height, job.height, filter);
  for (int y = 0; y < job.height; ++y) {
    const Taps& down = rows[static_cast<size_t>(y)];
    line.assign(static_cast<size_t>(job.from.width) * 3, 0.0f);
    for (size_t j = 0; j < down.weights.size(); ++j) {
      const uint8_t* row = job.from.row(down.first + static_cast<int>(j));
      const float weight = down.weights[j];
      for (size_t i = 0; i < line.size(); ++i) line[i] += static_cast<float>(row[i]) * weight;
    }
    for (int x = 0; x < job.width; ++x) {
      const Taps& taps = columns[static_cast<size_t>(x)];
      const float* pixel = line.data() + taps.first * 3;
      std::array<float, 3> sum{};
      for (size_t i = 0; i < taps.weights.size(); ++i, pixel += 3) {
        for (size_t c = 0; c < 3; ++c) sum[c] += pixel[c] * taps.weights[i];
      }
      for (size_t c = 0; c < 3; ++c) job.out(x, y)[c] = cut(sum[c]);
    }
  }
}

}  // namespace

const char* tensorflow_filter_name(TensorflowFilter filter) { return kNames[static_cast<size_t>(filter)].second; }

std::optional<TensorflowFilter> parse_tensorflow_filter(std::string_view name) {
  for (const auto& [filter, known] : kNames) {
    if (name == known) return filter;
  }
  return std::nullopt;
}

std::vector<std::string> tensorflow_filter_names() {
  std::vector<std::string> names;
  for (const auto& [filter, known] : kNames) names.emplace_back(known);
  return names;
}

void TensorflowResizer::resize(const ImageView& from, const TensorflowMethod& method, bool mirror, int width, int height,
                               uint8_t* to) {
  if (from.width == width && from.height == height) return copy_image(from, mirror, to, ptrdiff_t{width} * 3);
  const Job job{from, width, height, mirror, to};
  const bool widens = method.filter == TensorflowFilter::kBilinear || method.filter == TensorflowFilter::kBicubic;
  if (method.antialias && widens) return antialiased(job, method.filter, line_);
  switch (method.filter) {
    case TensorflowFilter::kNearest: return nearest(job);
    case TensorflowFilter::kBilinear: return bilinear(job, taps_, bytes_);
    case TensorflowFilter::kBicubic: return bicubic(job, line_);
    case TensorflowFilter::kArea: return area(job);
  }
}

}  // namespace tessera::image
