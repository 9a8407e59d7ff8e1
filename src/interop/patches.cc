#include "interop/patches.h"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "interop/resize_taps.h"

namespace tessera::interop {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Taps half_pixel_taps(int64_t index, int64_t from, int64_t to) {
  const double at = (static_cast<double>(index) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
  const double part = at - std::floor(at);
  const auto below = static_cast<int64_t>(std::floor(at));
  if (below < 0 || below + 1 >= from) return {std::clamp<int64_t>(below, 0, from - 1), {1}};
  return {below, {1 - part, part}};
}

// pinv(B^T) [to, from] of one direction. That of both is their Kronecker product, for B's is.
Matrix patch_matrix(int64_t from, int64_t to, Resample how) {
  Matrix resize = Matrix::Zero(to, from);
  for (int64_t t = 0; t < to; ++t) {
    const Taps taps = how == Resample::kBicubic ? bicubic_taps(t, from, to) : half_pixel_taps(t, from, to);
    for (size_t k = 0; k < taps.weights.size(); ++k) resize(t, taps.first + static_cast<int64_t>(k)) = taps.weights[k];
  }
  return Matrix(resize.transpose()).completeOrthogonalDecomposition().pseudoInverse();
}

}  // namespace

std::vector<float> resample_patches(const std::vector<float>& kernel, int64_t old_side, int64_t new_side, int64_t depth,
                                    Resample how) {
  TESSERA_CHECK(static_cast<int64_t>(kernel.size()) == old_side * old_side * depth);
  const Matrix matrix = patch_matrix(old_side, new_side, how);
  const Matrix in = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
                        kernel.data(), old_side, old_side * depth)
                        .cast<double>();
  const Matrix rows = matrix * in;  // [new, old * depth]
  std::vector<float> out;
  out.reserve(static_cast<size_t>(new_side * new_side * depth));
  for (int64_t r = 0; r < new_side; ++r) {
    const Matrix both = matrix * Eigen::Map<const Matrix>(rows.row(r).data(), old_side, depth);
    for (const double value : both.reshaped<Eigen::RowMajor>()) out.push_back(static_cast<float>(value));
  }
  return out;
}

std::vector<float> adapt_channels(const std::vector<float>& kernel, int64_t pixels, int64_t channels, int64_t features) {
  TESSERA_CHECK(static_cast<int64_t>(kernel.size()) == pixels * 3 * features);
  const bool sum = channels == 1;
  const float scale = sum ? 1 : 3 / static_cast<float>(channels);
  std::vector<float> out(static_cast<size_t>(pixels * channels * features), 0.0f);
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t c = 0; c < (sum ? 3 : channels); ++c) {
      const float* from = kernel.data() + (p * 3 + c % 3) * features;
      float* to = out.data() + (p * channels + c % channels) * features;
      for (int64_t f = 0; f < features; ++f) to[f] += from[f] * scale;
    }
  }
  return out;
}

}  // namespace tessera::interop
