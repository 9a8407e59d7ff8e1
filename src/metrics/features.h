#pragma once
// What a model made of a set of examples: a row of numbers for each.

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::metrics {

struct Features {
  int64_t width = 0;
  std::vector<float> values;  // [rows, width]

  int64_t rows() const { return width == 0 ? 0 : static_cast<int64_t>(values.size()) / width; }
  std::span<const float> row(int64_t i) const { return {values.data() + i * width, static_cast<size_t>(width)}; }
};

// Features whose examples have a class each.
struct LabelledFeatures {
  Features features;
  std::vector<int32_t> labels;  // 0 <= label < classes
};

// The rows named, in their order.
Features take_rows(const Features& features, std::span<const int64_t> rows);
LabelledFeatures take_rows(const LabelledFeatures& examples, std::span<const int64_t> rows);

// The share of places where the two are equal.
double share_equal(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace tessera::metrics
