// Batch norm and its gradient against the formulas in f64.

#include "host/convolution/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

using Doubles = std::vector<double>;

struct Arrays {
  // Means are far from 0, in units of the deviation: what a sum of squares would lose.
  explicit Arrays(const BatchNorm& n)
      : x(n.dtype, shifted(normal_numbers(n.rows * n.channels, 1), n.channels)),
        residual(n.dtype, normal_numbers(n.rows * n.channels, 2)),
        dy(n.dtype, normal_numbers(n.rows * n.channels, 3)),
        y(n.dtype, std::vector<float>(x.f32().size(), 7)),
        dx(n.dtype, y.f32()),
        dresidual(n.dtype, y.f32()),
        scale(normal_numbers(n.channels, 4)),
        bias(normal_numbers(n.channels, 5)),
        mean(scale.size()),
        variance(scale.size()),
        dscale(scale.size()),
        dbias(scale.size()) {}
  void run(const BatchNorm& n, bool adds, int threads) {
    batch_norm(n, {x.data(), scale.data(), bias.data(), adds ? residual.data() : nullptr},
               {y.data(), mean.data(), variance.data()}, on_threads(threads));
    batch_norm_gradient(n, {dy.data(), x.data(), n.relu ? y.data() : nullptr, scale.data(), mean.data(), variance.data()},
                        {dx.data(), dscale.data(), dbias.data(), adds ? dresidual.data() : nullptr}, on_threads(threads));
  }
  Numbers x, residual, dy, y, dx, dresidual;
  std::vector<float> scale, bias, mean, variance, dscale, dbias;

 private:
  static std::vector<float> shifted(std::vector<float> x, int64_t channels) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i % static_cast<size_t>(channels) % 5) * 4;
    return x;
  }
};

struct Reference {
  Doubles y, dx, dresidual, mean, variance, dscale, dbias;
  Doubles dscale_size;  // the sum of the terms' magnitudes, as they are computed: g * x - g * mean

  Reference(const BatchNorm& n, Arrays& a, bool adds)
      : y(a.x.f32().size()),
        dx(y),
        dresidual(y),
        mean(a.scale.size()),
        variance(mean),
        dscale(mean),
        dbias(mean),
        dscale_size(mean) {
    const auto rows = static_cast<size_t>(n.rows), channels = static_cast<size_t>(n.channels);
    const std::vector<float>&x = a.x.f32(), &residual = a.residual.f32(), &dy = a.dy.f32(), &got = a.y.read();
    for (size_t c = 0; c < channels; ++c) {
      for (size_t r = 0; r < rows; ++r) mean[c] += static_cast<double>(x[r * channels + c]) / static_cast<double>(n.rows);
      for (size_t r = 0; r < rows; ++r) variance[c] += std::pow(x[r * channels + c] - mean[c], 2) / static_cast<double>(n.rows);
      const double inverse = 1 / std::sqrt(variance[c] + n.epsilon);
      double along = 0;
      for (size_t r = 0; r < rows; ++r) {
        const size_t i = r * channels + c;
        const double normal = (x[i] - mean[c]) * inverse;
        y[i] = normal * a.scale[c] + a.bias[c] + (adds ? static_cast<double>(residual[i]) : 0.0);
        if (n.relu) y[i] = std::max(0.0, y[i]);
        // The kernel's own zeros: a number that is 0 but for its rounding has either gradient.
        dresidual[i] = n.relu && got[i] <= 0 ? 0 : dy[i];
        dbias[c] += dresidual[i];
        along += dresidual[i] * normal;
        dscale_size[c] += std::abs(dresidual[i]) * (std::abs(x[i]) + std::abs(mean[c])) * inverse;
      }
      dscale[c] = along;
      for (size_t r = 0; r < rows; ++r) {
        const size_t i = r * channels + c;
        const double normal = (x[i] - mean[c]) * inverse, count = static_cast<double>(n.rows);
        dx[i] = a.scale[c] * inverse * (dresidual[i] - dbias[c] / count - normal * along / count);
      }
    }
  }
};

// To `tolerance` of the largest number, and what rounding to the array's dtype changes.
void expect_close(const std::vector<float>& got, const Doubles& want, const char* what, DType dtype = DType::kF32) {
  double size = 0;
  for (const double x : want) size = std::max(size, std::abs(x));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 2e-6 * size + rounding_of(dtype) * std::abs(want[i])) << what << " " << i;
  }
}

// One block of rows and many, channels that are a whole number of vectors and not.
constexpr BatchNorm kSizes[] = {{5, 3, 1e-5},     {40, 64, 1e-5},   {1500, 70, 1e-3},
                                {2000, 32, 1e-5}, {300, 513, 1e-5}, {2, 1, 1e-5}};

TEST(BatchNorm, FollowsTheFormulas) {
  for (BatchNorm n : kSizes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int form : {0, 1, 2, 3}) {
        n.dtype = dtype;
        n.relu = (form & 1) != 0;
        const bool adds = (form & 2) != 0;
        SCOPED_TRACE(testing::Message() << n.rows << " x " << n.channels << ", " << dtype_name(dtype)
                                        << (n.relu ? ", ReLU" : "") << (adds ? ", with a residual" : ""));
        Arrays a(n), three(n);
        a.run(n, adds, 1);
        three.run(n, adds, 3);
        const Reference want(n, a, adds);
        expect_close(a.mean, want.mean, "mean");
        expect_close(a.variance, want.variance, "variance");
        expect_close(a.y.read(), want.y, "y", dtype);
        // The gradient over two rows is the difference of equal numbers.
        if (n.rows > 2) expect_close(a.dx.read(), want.dx, "dx", dtype);
        // f32 sums of at most 256 rows, and the mean, which is f32.
        for (size_t c = 0; c < a.dscale.size(); ++c)
          ASSERT_NEAR(a.dscale[c], want.dscale[c], 0x1p-24 * 36 * want.dscale_size[c]);
        expect_close(a.dbias, want.dbias, "dbias");
        if (adds) expect_close(a.dresidual.read(), want.dresidual, "dresidual", dtype);
        EXPECT_EQ(a.y.read(), three.y.read());
        EXPECT_EQ(a.dx.read(), three.dx.read());
        EXPECT_EQ(a.dscale, three.dscale);
      }
    }
  }
}

// What training gives of a batch, inference gives of the batch's own mean and variance.
TEST(BatchNorm, InferenceIsTrainingWithGivenStatistics) {
  for (BatchNorm n : kSizes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const bool adds : {false, true}) {
        n.dtype = dtype;
        n.relu = adds;
        Arrays a(n);
        a.run(n, adds, 1);
        Numbers y(dtype, std::vector<float>(a.x.f32().size(), 7));
        batch_norm_inference(
            n,
            {a.x.data(), a.scale.data(), a.bias.data(), a.mean.data(), a.variance.data(), adds ? a.residual.data() : nullptr},
            y.data(), on_threads(3));
        EXPECT_EQ(y.read(), a.y.read()) << n.rows << " x " << n.channels << ", " << dtype_name(dtype);
      }
    }
  }
}

TEST(BatchNorm, ANaNStaysOne) {
  const BatchNorm n{30, 20, 1e-5, true};
  Arrays a(n);
  std::vector<float> x = a.x.f32();
  x[21] = std::nanf("");
  a.x = Numbers(n.dtype, x);
  a.run(n, false, 1);
  EXPECT_TRUE(std::isnan(a.y.read()[1])) << "of its channel";
  EXPECT_TRUE(std::isnan(a.dx.read()[1]));
  EXPECT_FALSE(std::isnan(a.y.read()[2]));
}

}  // namespace
}  // namespace tessera::host
