// max_pool_f32 and its gradient against the definition.

#include "host/convolution/max_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

// The numbers of x that a window sees at a place, of one channel, line by line.
std::vector<size_t> seen(const Windows& p, int64_t b, int64_t row, int64_t column, int64_t channel) {
  std::vector<size_t> found;
  for (int64_t i = 0; i < p.window * p.window; ++i) {
    const int64_t y = row * p.stride - p.padding + i / p.window, x = column * p.stride - p.padding + i % p.window;
    if (y < 0 || y >= p.height || x < 0 || x >= p.width) continue;
    found.push_back(static_cast<size_t>(((b * p.height + y) * p.width + x) * p.channels + channel));
  }
  return found;
}

struct Pooled {
  std::vector<float> out;
  std::vector<double> dx;
};

Pooled by_definition(const Windows& p, const std::vector<float>& x, const std::vector<float>& dout) {
  Pooled want{{}, std::vector<double>(x.size())};
  for (int64_t i = 0; i < static_cast<int64_t>(dout.size()); ++i) {
    const int64_t place = i / p.channels, column = place % p.columns(), row = place / p.columns() % p.rows();
    float largest = -std::numeric_limits<float>::infinity();
    std::optional<size_t> at;
    for (const size_t number : seen(p, place / p.columns() / p.rows(), row, column, i % p.channels)) {
      if (!at || x[number] > largest) largest = x[number], at = number;
    }
    want.out.push_back(largest);
    if (at) want.dx[*at] += dout[static_cast<size_t>(i)];
  }
  return want;
}

void expect_as_defined(const Windows& p, const std::vector<float>& x) {
  const std::vector<float> dout = normal_numbers(p.batch * p.rows() * p.columns() * p.channels, 2);
  const Pooled want = by_definition(p, x, dout);
  for (const int threads : {1, 3}) {
    std::vector<float> out(dout.size(), 7), dx(x.size(), 7);
    max_pool_f32(p, x.data(), out.data(), on_threads(threads));
    max_pool_gradient_f32(p, x.data(), dout.data(), dx.data(), on_threads(threads));
    EXPECT_EQ(out, want.out);
    for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], want.dx[i], 1e-5) << i;
  }
}

TEST(MaxPool, IsTheLargestAndItsFirstGetsTheCotangent) {
  for (const Windows& p : {Windows{2, 5, 6, 3, 3, 2, 1}, Windows{1, 40, 7, 19, 3, 2, 1}, Windows{3, 4, 4, 64, 2, 2, 0},
                           Windows{1, 33, 5, 33, 3, 1, 1}, Windows{1, 2, 2, 4, 5, 1, 4}, Windows{2, 7, 5, 1, 2, 3, 0},
                           Windows{1, 37, 3, 16, 7, 4, 3}, Windows{1, 1, 1, 2, 1, 1, 2}}) {
    std::vector<float> x = normal_numbers(p.batch * p.height * p.width * p.channels, 1);
    expect_as_defined(p, x);
    for (float& value : x) value = std::max(0.0F, std::round(value));  // many are equal
    expect_as_defined(p, x);
    for (float& value : x) value = -std::numeric_limits<float>::infinity();
    expect_as_defined(p, x);
  }
}

TEST(MaxPool, NaNStays) {
  const Windows p{1, 4, 4, 20, 3, 2, 1};
  std::vector<float> x(4 * 4 * 20, 1), out(2 * 2 * 20);
  x[20] = x[21 + 16] = std::numeric_limits<float>::quiet_NaN();  // of the second column: channels 0 and 17
  max_pool_f32(p, x.data(), out.data(), on_threads(1));
  for (size_t channel = 0; channel < 20; ++channel)
    EXPECT_EQ(std::isnan(out[channel]), channel == 0 || channel == 17) << channel;
}

}  // namespace
}  // namespace tessera::host
