// product_f32 against sums in f64.

#include "host/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

class ProductTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!product_f32_available()) GTEST_SKIP() << "this machine has no matrix unit (AMX)";
  }
};

struct Operands {
  explicit Operands(const Product& p)
      : a(normal_numbers(p.batch * p.m * p.k, 1)),
        b(normal_numbers(p.batch * p.k * p.n, 2)),
        c(static_cast<size_t>(p.batch * p.m * p.n), 7) {}
  std::vector<float> a, b, c;
};

// Where element (row, k) of operand i lies.
size_t at(int64_t i, int64_t row, int64_t k, int64_t rows, int64_t inner, bool k_first) {
  return static_cast<size_t>(i * rows * inner + (k_first ? k * rows + row : row * inner + k));
}

// The greatest error of an element, in units of the sum of its terms' magnitudes.
double worst_error(const Product& p, const Operands& x) {
  double worst = 0;
  for (int64_t i = 0; i < p.batch; ++i) {
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const double term =
              static_cast<double>(x.a[at(i, m, k, p.m, p.k, p.a_transposed)]) * x.b[at(i, n, k, p.n, p.k, !p.b_transposed)];
          sum += term;
          magnitude += std::abs(term);
        }
        worst = std::max(worst, std::abs(x.c[static_cast<size_t>((i * p.m + m) * p.n + n)] - sum) / magnitude);
      }
    }
  }
  return worst;
}

TEST_F(ProductTest, IsAsExactAsF32InEverySizeAndForm) {
  const Product sizes[] = {{1, 32, 32, 32},  {1, 1, 1, 1},     {1, 16, 17, 33},  {1, 47, 5, 31},    {3, 33, 49, 70},
                           {1, 130, 66, 50}, {2, 20, 260, 64}, {1, 70, 450, 40}, {1, 40, 40, 1300}, {5, 1, 64, 20}};
  for (Product p : sizes) {
    for (const int form : {0, 1, 2, 3}) {
      p.a_transposed = (form & 1) != 0;
      p.b_transposed = (form & 2) != 0;
      Operands x(p);
      product_f32(p, x.a.data(), x.b.data(), x.c.data(), on_threads(2));
      // Sums in f32, one number after the other, are off by up to k * 2^-24 and by about its root as a rule.
      EXPECT_LT(worst_error(p, x), 0x1p-24 * (4 + 2 * std::sqrt(static_cast<double>(p.k))))
          << p.batch << " x " << p.m << " " << p.n << " " << p.k << " form " << form;
    }
  }
}

TEST_F(ProductTest, DoesNotDependOnTheThreads) {
  const Product p{.batch = 1, .m = 300, .n = 500, .k = 700};
  Operands one(p), three(p);
  product_f32(p, one.a.data(), one.b.data(), one.c.data(), on_threads(1));
  product_f32(p, three.a.data(), three.b.data(), three.c.data(), on_threads(3));
  EXPECT_EQ(one.c, three.c);
}

TEST_F(ProductTest, KeepsLargeSmallAndBrokenNumbers) {
  const Product p{.batch = 1, .m = 3, .n = 1, .k = 2};
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a = {0x1p100F, 1 + 0x1p-23F, inf, 1, nan, 0}, b = {0x1p-90F, 1};
  std::vector<float> c(3);
  product_f32(p, a.data(), b.data(), c.data(), on_threads(1));
  EXPECT_EQ(c[0], 0x1p10F + 1 + 0x1p-23F);
  EXPECT_TRUE(std::isnan(c[1])) << "an infinite operand may not pass for a finite result";
  EXPECT_TRUE(std::isnan(c[2]));
}

}  // namespace
}  // namespace tessera::host
