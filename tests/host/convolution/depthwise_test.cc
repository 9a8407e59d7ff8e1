// Depthwise convolutions and their gradients against the definition in f64.

#include "host/convolution/depthwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

using Doubles = std::vector<double>;

struct Arrays {
  explicit Arrays(const Windows& w)
      : x(normal_numbers(w.batch * w.height * w.width * w.channels, 1)),
        kernel(normal_numbers(w.elements(), 2)),
        dy(normal_numbers(w.places() * w.channels, 3)),
        y(dy.size(), 7),
        dx(x.size(), 7),
        dkernel(kernel.size(), 7) {}
  void run(const Windows& w, int threads) {
    depthwise_f32(w, x.data(), kernel.data(), y.data(), on_threads(threads));
    depthwise_input_gradient_f32(w, dy.data(), kernel.data(), dx.data(), on_threads(threads));
    depthwise_kernel_gradient_f32(w, x.data(), dy.data(), dkernel.data(), on_threads(threads));
  }
  std::vector<float> x, kernel, dy, y, dx, dkernel;
};

struct Reference {
  Doubles y, dx, dkernel;

  Reference(const Windows& w, const Arrays& a) : y(a.y.size()), dx(a.dx.size()), dkernel(a.dkernel.size()) {
    for (int64_t p = 0; p < w.places(); ++p) {
      for (int64_t i = 0; i < w.elements(); ++i) {
        const int64_t row = p / w.columns() % w.rows() * w.stride - w.padding + i / w.channels / w.window;
        const int64_t column = p % w.columns() * w.stride - w.padding + i / w.channels % w.window;
        if (row < 0 || row >= w.height || column < 0 || column >= w.width) continue;
        const int64_t picture = p / w.columns() / w.rows(), c = i % w.channels;
        const auto in = static_cast<size_t>(((picture * w.height + row) * w.width + column) * w.channels + c);
        const auto out = static_cast<size_t>(p * w.channels + c), k = static_cast<size_t>(i);
        y[out] += static_cast<double>(a.x[in]) * a.kernel[k];
        dx[in] += static_cast<double>(a.dy[out]) * a.kernel[k];
        dkernel[k] += static_cast<double>(a.dy[out]) * a.x[in];
      }
    }
  }
};

// Terms are a few units each: sums of `terms` in f32.
void expect_close(const std::vector<float>& got, const Doubles& want, int64_t terms, const std::string& what) {
  const double allowed = 0x1p-24 * 16 * (4 + 2 * std::sqrt(static_cast<double>(terms)));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], allowed + 0x1p-22 * std::abs(want[i])) << what << " " << i;
}

// Channels that are a whole number of vectors and not, lines longer and shorter than what is computed at once, all windows that
// have code of their own, steps, and places that see nothing but padding.
constexpr Windows kCases[] = {{2, 5, 6, 3, 3, 1, 1},  {1, 20, 29, 37, 7, 1, 3}, {1, 8, 7, 16, 7, 2, 3},
                              {3, 4, 4, 5, 1, 2, 0},  {1, 2, 2, 4, 5, 1, 4},    {2, 7, 5, 1, 2, 3, 0},
                              {2, 3, 3, 2, 2, 1, 3},  {1, 19, 23, 20, 9, 1, 4}, {1, 30, 41, 32, 3, 2, 1},
                              {2, 6, 6, 48, 4, 4, 0}, {1, 1, 40, 8, 11, 1, 5}};

TEST(Depthwise, FollowsTheDefinition) {
  for (const Windows& w : kCases) {
    SCOPED_TRACE(testing::Message() << w.batch << " x " << w.height << " x " << w.width << " x " << w.channels << ", window "
                                    << w.window << ", stride " << w.stride << ", padding " << w.padding);
    Arrays one(w), three(w);
    one.run(w, 1);
    three.run(w, 3);
    const Reference want(w, one);
    expect_close(one.y, want.y, w.window * w.window, "y");
    expect_close(one.dx, want.dx, w.window * w.window, "dx");
    expect_close(one.dkernel, want.dkernel, w.places(), "dkernel");
    EXPECT_EQ(one.y, three.y);
    EXPECT_EQ(one.dx, three.dx);
    EXPECT_EQ(one.dkernel, three.dkernel);
  }
}

}  // namespace
}  // namespace tessera::host
