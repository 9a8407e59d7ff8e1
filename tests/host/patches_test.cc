// patches_f32 and its gradient against the definition.

#include "host/patches.h"

#include <gtest/gtest.h>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

// Calls visit(number of x, number of out) for each number of a patch that lies inside its picture.
template <class Visit>
void each_inside(const Patches& p, const Visit& visit) {
  int64_t out = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t place = 0; place < p.rows() * p.columns(); ++place) {
      for (int64_t i = 0; i < p.elements(); ++i, ++out) {
        const int64_t y = place / p.columns() * p.stride - p.padding + i / p.channels / p.window;
        const int64_t x = place % p.columns() * p.stride - p.padding + i / p.channels % p.window;
        if (y < 0 || y >= p.height || x < 0 || x >= p.width) continue;
        visit(static_cast<size_t>(((b * p.height + y) * p.width + x) * p.channels + i % p.channels), static_cast<size_t>(out));
      }
    }
  }
}

TEST(Patches, AreWhatTheWindowSees) {
  for (const Patches& p : {Patches{2, 5, 6, 3, 3, 1, 1}, Patches{1, 8, 7, 2, 7, 2, 3}, Patches{3, 4, 4, 5, 1, 2, 0},
                           Patches{1, 6, 4, 1, 2, 2, 0}, Patches{1, 2, 2, 4, 5, 1, 4}, Patches{2, 7, 5, 1, 2, 3, 0}}) {
    const std::vector<float> x = normal_numbers(p.batch * p.height * p.width * p.channels, 1);
    const std::vector<float> dout = normal_numbers(p.batch * p.rows() * p.columns() * p.elements(), 2);
    std::vector<float> want(dout.size());
    std::vector<double> dwant(x.size());
    each_inside(p, [&](size_t in, size_t out) {
      want[out] = x[in];
      dwant[in] += dout[out];
    });
    for (const int threads : {1, 3}) {
      std::vector<float> out(dout.size(), 7), dx(x.size(), 7);
      patches_f32(p, x.data(), out.data(), on_threads(threads));
      patches_gradient_f32(p, dout.data(), dx.data(), on_threads(threads));
      EXPECT_EQ(out, want);
      for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], dwant[i], 1e-5);
    }
  }
}

}  // namespace
}  // namespace tessera::host
