// Sums of squares against f64.

#include "host/sum_of_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

using Spans = std::vector<std::span<const float>>;

TEST(SumOfSquares, IsThatOfDoubles) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{}, {0}, {1}, {31}, {32, 33}, {4095, 4096, 4097}, {65535, 1, 65537}, {300'001}}) {
    std::vector<std::vector<float>> arrays;
    double want = 0;
    for (const int64_t size : sizes) {
      arrays.push_back(normal_numbers(size, static_cast<uint32_t>(size)));
      for (const float x : arrays.back()) want += static_cast<double>(x) * x;
    }
    const Spans spans(arrays.begin(), arrays.end());
    const float got = sum_of_squares(spans, on_threads(1));
    EXPECT_NEAR(got, want, 1e-6 * want) << sizes.size() << " arrays";
    EXPECT_EQ(sum_of_squares(spans, on_threads(3)), got) << "the same bits on any threads";
  }
}

// Numbers begin anywhere in memory.
TEST(SumOfSquares, OfAMisalignedArray) {
  const std::vector<float> numbers = normal_numbers(10'000, 5), moved(numbers.begin() + 1, numbers.end());
  const Spans inside = {std::span(numbers).subspan(1)}, apart = {moved};
  EXPECT_EQ(sum_of_squares(inside, on_threads(1)), sum_of_squares(apart, on_threads(1)));
}

TEST(SumOfSquares, WhatIsNotFiniteIsSeen) {
  for (const size_t place : {size_t{0}, size_t{4096}, size_t{9999}}) {
    std::vector<float> numbers(10'000, 1);
    numbers[place] = 2e19F;
    EXPECT_EQ(sum_of_squares(Spans{numbers}, on_threads(1)), std::numeric_limits<float>::infinity());
    numbers[place] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(sum_of_squares(Spans{numbers}, on_threads(1))));
  }
}

}  // namespace
}  // namespace tessera::host
