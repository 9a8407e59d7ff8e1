#include "optim/schedule/lr_suggestions.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tessera::optim {
namespace {

using Curve = std::span<const double>;

// The longest falling subsequence by dynamic programming. fastai looks for the longest while it fills the table, and takes its
// end and length as they are then.
double valley(Curve rates, Curve losses) {
  const size_t n = losses.size();
  std::vector<int64_t> length(n, 1);
  int64_t start = 0;
  size_t end = 0;
  for (size_t i = 1; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (losses[i] < losses[j] && length[i] < length[j] + 1) length[i] = length[j] + 1;
      if (length[end] < length[i]) {
        end = i;
        start = static_cast<int64_t>(end) - length[end];
      }
    }
  }
  const double third = static_cast<double>(static_cast<int64_t>(end) - start) / 3;
  const int64_t at = start + static_cast<int64_t>(third) + static_cast<int64_t>(third / 2);
  return rates[static_cast<size_t>(at < 0 ? at + static_cast<int64_t>(n) : at)];  // as Python counts
}

double steep(Curve rates, Curve losses) {
  size_t best = 0;
  double least = INFINITY;
  for (size_t i = 0; i + 1 < losses.size(); ++i) {
    const double slope = (losses[i + 1] - losses[i]) / (std::log(rates[i + 1]) - std::log(rates[i]));
    if (slope < least) least = slope, best = i;
  }
  return rates[best];
}

// numpy.gradient: central differences, one-sided at both ends.
std::vector<double> gradient(Curve y) {
  const size_t n = y.size();
  std::vector<double> out(n);
  for (size_t i = 1; i + 1 < n; ++i) out[i] = (y[i + 1] - y[i - 1]) / 2;
  out[0] = y[1] - y[0];
  out[n - 1] = y[n - 1] - y[n - 2];
  return out;
}

std::optional<double> slide(Curve rates, Curve losses) {
  constexpr size_t kWidth = 15;
  constexpr double kThreshold = 0.005;
  if (losses.size() <= kWidth) return std::nullopt;
  const std::vector<double> slope = gradient(losses);
  size_t right = losses.size() - 1;
  double rate = rates[right - kWidth];
  for (;; --right) {
    if (!(std::abs(slope[right] - slope[right - kWidth]) > kThreshold)) return rate;
    rate = rates[right - kWidth];
    if (right == kWidth) return rate;
  }
}

}  // namespace

LrSuggestions suggest_rates(std::span<const double> rates, std::span<const double> losses) {
  TESSERA_CHECK(rates.size() == losses.size());
  if (losses.size() < 2) return {};
  const auto least = std::ranges::min_element(losses) - losses.begin();
  return {valley(rates, losses), steep(rates, losses), rates[static_cast<size_t>(least)] / 10, slide(rates, losses)};
}

double SmoothLoss::add(double loss) {
  value_ = beta_ * value_ + (1 - beta_) * loss;
  weight_ *= beta_;
  return value_ / (1 - weight_);
}

std::pair<size_t, size_t> used_range(std::span<const double> losses, size_t planned) {
  constexpr size_t kEnd = 5;
  const size_t first = planned / 10;
  size_t last = losses.size() > kEnd ? losses.size() - kEnd : 0;
  for (size_t i = first; i < last; ++i) {
    if (!std::isfinite(losses[i])) last = i;
  }
  return {std::min(first, last), last};
}

}  // namespace tessera::optim
