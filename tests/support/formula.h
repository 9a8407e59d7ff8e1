#pragma once
// The deterministic values of tools/references/shared/formula.py, from which the reference files in tests/references are made.

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"

namespace tessera::testing {

// Element i of the array `name`: 32 random-looking bits.
inline uint32_t formula_bits(std::string_view name, uint64_t i) {
  uint32_t h = 2166136261u;
  for (const char byte : name) h = (h ^ static_cast<unsigned char>(byte)) * 16777619u;
  auto x = static_cast<uint32_t>(i * 2654435761u + h);
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// offset + (2u - 1) * scale, u in [0, 1), rounded once.
inline std::vector<float> formula_array(std::string_view name, int64_t count, double scale = 1, double offset = 0) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const double u = static_cast<double>(formula_bits(name, i)) / 4294967296.0;
    values[i] = static_cast<float>(offset + (2 * u - 1) * scale);
  }
  return values;
}

// The value of a parameter by timm's name and layout.
inline std::vector<float> formula_parameter(const std::string& name, const Dims& dims) {
  const size_t dot = name.rfind('.');
  const std::string rest = name.substr(dot == std::string::npos ? 0 : dot + 1);
  const int64_t count = element_count(dims);
  for (const char* token : {"pos_embed", "cls_token", "reg_token", "latent"}) {
    if (rest == token) return formula_array(name, count, 0.5);
  }
  if (dims.size() >= 2)
    return formula_array(name, count, std::sqrt(3 / (static_cast<double>(count) / static_cast<double>(dims[0]))));
  if (rest == "weight" || rest == "running_var") return formula_array(name, count, 0.2, 1);
  return formula_array(name, count, 0.05);
}

// The images of a case at a step, from the references' [batch, channels, height, width] to [batch, height, width, channels].
inline std::vector<float> formula_images(const std::string& name, int64_t step, int64_t batch, int64_t channels, int64_t height,
                                         int64_t width) {
  const std::vector<float> in = formula_array(name + "/input" + std::to_string(step), batch * channels * height * width);
  std::vector<float> out(in.size());
  const int64_t plane = height * width;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < plane; ++p) {
        out[static_cast<size_t>((b * plane + p) * channels + c)] = in[static_cast<size_t>((b * channels + c) * plane + p)];
      }
    }
  }
  return out;
}

// The label of row i at a step.
inline std::vector<int32_t> formula_labels(int64_t step, int64_t batch, int64_t classes) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < batch; ++i) labels.push_back(static_cast<int32_t>((i * 7 + step * 3) % classes));
  return labels;
}

}  // namespace tessera::testing
