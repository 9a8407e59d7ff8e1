// Convolutions in groups and their gradients against the definition in f64.

#include "host/convolution/grouped_convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

using Doubles = std::vector<double>;

int64_t kernel_numbers(const GroupedConvolution& c) { return c.all.windows.elements() / c.groups * c.all.features; }

struct Arrays {
  explicit Arrays(const GroupedConvolution& c)
      : x(c.all.dtype,
          normal_numbers(c.all.windows.batch * c.all.windows.height * c.all.windows.width * c.all.windows.channels, 1)),
        kernel(c.all.dtype, normal_numbers(kernel_numbers(c), 2)),
        dy(c.all.dtype, normal_numbers(c.all.windows.places() * c.all.features, 3)),
        y(c.all.dtype, std::vector<float>(dy.f32().size(), 7)),
        dx(c.all.dtype, std::vector<float>(x.f32().size(), 7)),
        dkernel(c.all.dtype, std::vector<float>(kernel.f32().size(), 7)) {}
  void run(const GroupedConvolution& c, int threads) {
    grouped_convolution(c, x.data(), kernel.data(), y.data(), on_threads(threads));
    grouped_convolution_input_gradient(c, dy.data(), kernel.data(), dx.data(), on_threads(threads));
    grouped_convolution_kernel_gradient(c, x.data(), dy.data(), {dkernel.data(), dkernel.dtype()}, on_threads(threads));
  }
  Numbers x, kernel, dy, y, dx, dkernel;
};

struct Reference {
  Doubles y, dx, dkernel;

  Reference(const GroupedConvolution& c, const Arrays& a)
      : y(a.y.f32().size()), dx(a.dx.f32().size()), dkernel(a.dkernel.f32().size()) {
    const Windows& w = c.all.windows;
    const int64_t channels = w.channels / c.groups, features = c.all.features / c.groups;
    for (int64_t p = 0; p < w.places(); ++p) {
      for (int64_t tap = 0; tap < w.window * w.window; ++tap) {
        const int64_t row = p / w.columns() % w.rows() * w.stride - w.padding + tap / w.window;
        const int64_t column = p % w.columns() * w.stride - w.padding + tap % w.window;
        if (row < 0 || row >= w.height || column < 0 || column >= w.width) continue;
        const int64_t pixel = (p / w.columns() / w.rows() * w.height + row) * w.width + column;
        for (int64_t f = 0; f < c.all.features; ++f) {
          for (int64_t i = 0; i < channels; ++i) {
            const auto in = static_cast<size_t>(pixel * w.channels + f / features * channels + i);
            const auto k = static_cast<size_t>((tap * channels + i) * c.all.features + f),
                       out = static_cast<size_t>(p * c.all.features + f);
            y[out] += static_cast<double>(a.x.f32()[in]) * a.kernel.f32()[k];
            dx[in] += static_cast<double>(a.dy.f32()[out]) * a.kernel.f32()[k];
            dkernel[k] += static_cast<double>(a.dy.f32()[out]) * a.x.f32()[in];
          }
        }
      }
    }
  }
};

// Terms are a few units each: sums of `terms` in f32, where Winograd's algorithm adds numbers of a tile up before.
void expect_close(Numbers& got, const Doubles& want, int64_t terms, const std::string& what) {
  const double allowed = 0x1p-24 * 64 * (4 + 2 * std::sqrt(static_cast<double>(terms)));
  const std::vector<float>& numbers = got.read();
  for (size_t i = 0; i < numbers.size(); ++i)
    ASSERT_NEAR(numbers[i], want[i], allowed + rounding_of(got.dtype()) * std::abs(want[i])) << what << " " << i;
}

// Groups that fill a block together (ResNeXt's), that fill several, that fill none, of more channels than features and the other way
// round, and numbers of groups that no block divides evenly.
constexpr GroupedConvolution kCases[] = {{{{2, 9, 8, 64, 3, 1, 1}, 64}, 16}, {{{2, 9, 8, 64, 3, 2, 1}, 128}, 8},
                                         {{{1, 6, 5, 6, 3, 1, 1}, 10}, 2},   {{{3, 4, 4, 96, 1, 1, 0}, 96}, 3},
                                         {{{1, 7, 7, 12, 5, 2, 2}, 24}, 4},  {{{1, 5, 5, 6, 3, 1, 0}, 36}, 6},
                                         {{{2, 5, 4, 140, 3, 1, 1}, 70}, 14}};

TEST(GroupedConvolution, FollowsTheDefinition) {
  for (GroupedConvolution c : kCases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      c.all.dtype = dtype;
      const Windows& w = c.all.windows;
      SCOPED_TRACE(testing::Message() << w.channels << " -> " << c.all.features << " in " << c.groups << " groups, window "
                                      << w.window << ", stride " << w.stride << ", " << dtype_name(dtype));
      Arrays a(c), three(c);
      a.run(c, 1);
      three.run(c, 3);
      const Reference want(c, a);
      expect_close(a.y, want.y, w.elements() / c.groups, "y");
      expect_close(a.dx, want.dx, w.window * w.window * c.all.features / c.groups, "dx");
      expect_close(a.dkernel, want.dkernel, w.places(), "dkernel");
      EXPECT_EQ(a.y.read(), three.y.read());
      EXPECT_EQ(a.dx.read(), three.dx.read());
      EXPECT_EQ(a.dkernel.read(), three.dkernel.read());
    }
  }
}

}  // namespace
}  // namespace tessera::host
