// Convolutions and their gradients against the definition in f64.

#include "host/convolution/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "host/convolution/winograd.h"
#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

using Doubles = std::vector<double>;

struct Arrays {
  explicit Arrays(const Convolution& c)
      : x(c.dtype, normal_numbers(c.windows.batch * c.windows.height * c.windows.width * c.windows.channels, 1)),
        kernel(c.dtype, normal_numbers(c.windows.elements() * c.features, 2)),
        dy(c.dtype, normal_numbers(c.windows.places() * c.features, 3)),
        y(c.dtype, std::vector<float>(dy.f32().size(), 7)),
        dx(c.dtype, std::vector<float>(x.f32().size(), 7)),
        dkernel(c.dtype, std::vector<float>(kernel.f32().size(), 7)) {}
  void run(const Convolution& c, int threads) {
    convolution(c, x.data(), kernel.data(), y.data(), on_threads(threads));
    convolution_input_gradient(c, dy.data(), kernel.data(), dx.data(), on_threads(threads));
    convolution_kernel_gradient(c, x.data(), dy.data(), {dkernel.data(), dkernel.dtype()}, on_threads(threads));
  }
  Numbers x, kernel, dy, y, dx, dkernel;
};

// With the sums of the terms' magnitudes.
struct Reference {
  Doubles y, dx, dkernel, y_size, dx_size, dkernel_size;

  Reference(const Convolution& c, const Arrays& a)
      : y(a.dy.f32().size()),
        dx(a.x.f32().size()),
        dkernel(a.kernel.f32().size()),
        y_size(y),
        dx_size(dx),
        dkernel_size(dkernel) {
    const Windows& w = c.windows;
    for (int64_t p = 0; p < w.places(); ++p) {
      for (int64_t i = 0; i < w.elements(); ++i) {
        const int64_t row = p / w.columns() % w.rows() * w.stride - w.padding + i / w.channels / w.window;
        const int64_t column = p % w.columns() * w.stride - w.padding + i / w.channels % w.window;
        if (row < 0 || row >= w.height || column < 0 || column >= w.width) continue;
        const int64_t picture = p / w.columns() / w.rows();
        const auto in = static_cast<size_t>(((picture * w.height + row) * w.width + column) * w.channels + i % w.channels);
        // By pointers, because this loop is most of the time of tests that are not optimised.
        const double from = a.x.f32()[in];
        const float *k = a.kernel.f32().data() + i * c.features, *dout = a.dy.f32().data() + p * c.features;
        double *out = y.data() + p * c.features, *out_size = y_size.data() + p * c.features;
        double *dk = dkernel.data() + i * c.features, *dk_size = dkernel_size.data() + i * c.features;
        double sum = 0, size = 0;
        for (int64_t f = 0; f < c.features; ++f) {
          const double forward = from * k[f], to_input = static_cast<double>(dout[f]) * k[f], to_kernel = dout[f] * from;
          out[f] += forward;
          out_size[f] += std::abs(forward);
          sum += to_input;
          size += std::abs(to_input);
          dk[f] += to_kernel;
          dk_size[f] += std::abs(to_kernel);
        }
        dx[in] += sum;
        dx_size[in] += size;
      }
    }
  }
};

// Within the rounding of sums in f32, and of the result. `mixes`: where numbers of a tile are added up before they are multiplied,
// each result has a share of the rounding of all, so that the largest sum says what is allowed.
void expect_exact(Numbers& got, const Doubles& want, const Doubles& sizes, double terms, bool mixes, const std::string& what) {
  const std::vector<float>& numbers = got.read();
  const double largest = *std::ranges::max_element(sizes);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double allowed =
        0x1p-24 * (4 + 2 * std::sqrt(terms)) * (mixes ? largest : sizes[i]) + rounding_of(got.dtype()) * std::abs(want[i]);
    ASSERT_NEAR(numbers[i], want[i], allowed) << what << ", number " << i;
  }
}

// Pictures of odd sizes, windows larger than the picture, places that see nothing but padding, and as much as a model's; the last
// five by Winograd's algorithm.
constexpr Convolution kCases[] = {
    {{2, 5, 6, 3, 3, 1, 1}, 5},     {{1, 8, 7, 2, 7, 2, 3}, 33},    {{3, 4, 4, 5, 1, 2, 0}, 2},
    {{1, 6, 4, 1, 2, 2, 0}, 1},     {{1, 2, 2, 4, 5, 1, 4}, 7},     {{2, 7, 5, 1, 2, 3, 0}, 3},
    {{2, 3, 3, 2, 2, 1, 3}, 4},     {{3, 9, 9, 7, 1, 1, 0}, 40},    {{1, 5, 5, 3, 1, 1, 2}, 3},
    {{2, 14, 13, 64, 3, 1, 1}, 70}, {{2, 14, 13, 48, 3, 2, 1}, 20}, {{2, 14, 13, 64, 3, 1, 1}, 48},
    {{3, 7, 7, 32, 3, 1, 0}, 96},   {{1, 3, 5, 48, 3, 1, 2}, 32},   {{5, 28, 28, 32, 3, 1, 1}, 32},
    {{1, 3, 3, 32, 3, 1, 1}, 416}};

TEST(Convolution, FollowsTheDefinition) {
  for (Convolution c : kCases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      c.dtype = dtype;
      const Windows& w = c.windows;
      SCOPED_TRACE(testing::Message() << w.batch << " x " << w.height << " x " << w.width << " x " << w.channels << ", window "
                                      << w.window << ", stride " << w.stride << ", padding " << w.padding << " -> "
                                      << c.features << ", " << dtype_name(dtype));
      Arrays a(c);
      a.run(c, 2);
      const Reference want(c, a);
      const bool mixes = takes_winograd(c);
      expect_exact(a.y, want.y, want.y_size, static_cast<double>(w.elements()), mixes, "y");
      expect_exact(a.dx, want.dx, want.dx_size, static_cast<double>(w.window * w.window * c.features), mixes, "dx");
      expect_exact(a.dkernel, want.dkernel, want.dkernel_size, static_cast<double>(w.places()), mixes, "dkernel");
    }
  }
}

// The norm after it, against the formula in f64 of what the convolution gives alone in f32.
TEST(Convolution, NormsWhatItGives) {
  for (const Convolution& f32 : kCases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Convolution c = f32;
      c.dtype = dtype;
      const auto mean = normal_numbers(c.features, 11), factor = normal_numbers(c.features, 12),
                 offset = normal_numbers(c.features, 13);
      Arrays a(c);
      Numbers x(DType::kF32, a.x.f32()), kernel(DType::kF32, a.kernel.f32()), sums(DType::kF32, a.y.f32());
      convolution(f32, x.data(), kernel.data(), sums.data(), on_threads(1));
      const std::vector<float>& plain = sums.read();
      // bf16 numbers are multiplied without rounding, but their sums may have another order.
      const Reference want(c, a);
      for (const bool relu : {false, true}) {
        for (const bool adds : {false, true}) {
          const NormAfter norm{{mean.data(), factor.data(), offset.data(), relu}, adds ? a.dy.data() : nullptr};
          convolution(c, a.x.data(), a.kernel.data(), a.y.data(), on_threads(2), &norm);
          const std::vector<float>& got = a.y.read();
          for (size_t i = 0; i < got.size(); ++i) {
            const size_t f = i % static_cast<size_t>(c.features);
            const double residual = adds ? a.dy.f32()[i] : 0.0F, along = (static_cast<double>(plain[i]) - mean[f]) * factor[f];
            const double y = along + offset[f] + residual, expected = relu ? std::max(0.0, y) : y;
            const double size = std::abs(along) + std::abs(offset[f]) + std::abs(residual);
            const double order =
                dtype == DType::kF32 ? 0 : std::sqrt(c.windows.elements()) * want.y_size[i] * std::abs(factor[f]);
            ASSERT_NEAR(got[i], expected, 0x1p-22 * (size + order) + rounding_of(dtype) * std::abs(expected)) << "number " << i;
          }
        }
      }
    }
  }
}

// Packed once, for pictures of another number and size than here.
TEST(Convolution, IsTheSameByAKernelThatWasPackedBefore) {
  for (Convolution c : kCases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      c.dtype = dtype;
      Arrays a(c);
      convolution(c, a.x.data(), a.kernel.data(), a.y.data(), on_threads(2));
      const std::vector<float> want = a.y.read();
      Convolution other = c;
      other.windows.batch = 1, other.windows.height = other.windows.width = 9;
      PackedBytes packed(packed_convolution_bytes(other));
      pack_convolution(other, a.kernel.data(), packed.data(), on_threads(2));
      a.y = Numbers(dtype, std::vector<float>(want.size()));
      convolution(c, a.x.data(), Weights(packed.data(), true), a.y.data(), on_threads(2));
      EXPECT_EQ(a.y.read(), want) << c.windows.window << ", " << c.windows.channels << " -> " << c.features;
    }
  }
}

TEST(Convolution, DoesNotDependOnTheThreads) {
  for (Convolution c : kCases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      c.dtype = dtype;
      Arrays one(c), three(c);
      one.run(c, 1);
      three.run(c, 3);
      EXPECT_EQ(one.y.read(), three.y.read());
      EXPECT_EQ(one.dx.read(), three.dx.read());
      EXPECT_EQ(one.dkernel.read(), three.dkernel.read());
    }
  }
}

}  // namespace
}  // namespace tessera::host
