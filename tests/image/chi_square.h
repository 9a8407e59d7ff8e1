#pragma once
// Pearson's test of counts.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera::image::testing {

// How many standard deviations a chi-square of so many degrees of freedom lies above what is expected (Wilson and Hilferty).
inline double chi_square_deviation(double chi_square, size_t freedom) {
  const auto k = static_cast<double>(freedom);
  return (std::cbrt(chi_square / k) - (1 - 2 / (9 * k))) / std::sqrt(2 / (9 * k));
}

// Counts against probabilities, which need not sum to 1. Fails beyond four standard deviations; the draws are fixed by a seed.
inline void expect_distribution(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  ASSERT_EQ(counts.size(), probabilities.size());
  double total = 0, sum = 0, chi_square = 0;
  for (const double count : counts) total += count;
  for (const double p : probabilities) sum += p;
  size_t freedom = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * probabilities[i] / sum;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0) << "cell " << i;
      continue;
    }
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++freedom;
  }
  ASSERT_GT(freedom, 1u);
  EXPECT_LT(chi_square_deviation(chi_square, freedom - 1), 4) << "chi-square " << chi_square << " of " << freedom << " cells";
}

// Two sets of counts from what should be one distribution.
inline void expect_same_distribution(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  double total_a = 0, total_b = 0, chi_square = 0;
  for (const double count : a) total_a += count;
  for (const double count : b) total_b += count;
  size_t freedom = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] + b[i] == 0) continue;
    const double pooled = (a[i] + b[i]) / (total_a + total_b);
    chi_square += (a[i] - total_a * pooled) * (a[i] - total_a * pooled) / (total_a * pooled);
    chi_square += (b[i] - total_b * pooled) * (b[i] - total_b * pooled) / (total_b * pooled);
    ++freedom;
  }
  ASSERT_GT(freedom, 1u);
  EXPECT_LT(chi_square_deviation(chi_square, freedom - 1), 4) << "chi-square " << chi_square << " of " << freedom << " cells";
}

}  // namespace tessera::image::testing
