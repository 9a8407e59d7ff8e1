// Products on every unit of this processor against sums in f64.

#include "host/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

class ProductOn : public ::testing::TestWithParam<NamedUnit> {
 protected:
  const Unit& unit() const { return *GetParam().unit; }
};
INSTANTIATE_TEST_SUITE_P(Units, ProductOn, ::testing::ValuesIn(units()), [](const auto& unit) { return unit.param.name; });

struct Operands {
  Operands(const Product& p, DType from, DType to)
      : a(from, normal_numbers(p.batch * p.m * p.k, 1)),
        b(from, normal_numbers(p.batch * p.k * p.n, 2)),
        c(to, std::vector<float>(static_cast<size_t>(p.batch * p.m * p.n), 7)) {}
  void run(const Unit& unit, const Product& p, int threads) {
    multiply_on(unit, p, {a.data(), a.dtype()}, {b.data(), b.dtype()}, {c.data(), c.dtype()}, on_threads(threads));
  }
  Numbers a, b, c;
};

// Operand i as the unit sees it, in f64, with the numbers of a row one after the other.
std::vector<double> rows_of(const Unit& unit, const std::vector<float>& numbers, int64_t i, int64_t rows, int64_t inner,
                            bool inner_first) {
  std::vector<double> out(static_cast<size_t>(rows * inner));
  const float* from = numbers.data() + i * rows * inner;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < inner; ++k) {
      const float x = from[inner_first ? k * rows + row : row * inner + k];
      out[static_cast<size_t>(row * inner + k)] = unit.dtype == DType::kBF16 ? bf16_to_float(float_to_bf16(x)) : x;
    }
  }
  return out;
}

// Of every element: within what summing k products in f32 and rounding the sum may change.
void expect_exact(const Unit& unit, const Product& p, Operands& x) {
  const std::vector<float>&a = x.a.read(), &b = x.b.read(), &c = x.c.read();
  // Sums in f32, one number after the other, are off by up to k * 2^-24 and by about its root as a rule.
  const double allowed = 0x1p-24 * (4 + 2 * std::sqrt(static_cast<double>(p.k)));
  for (int64_t i = 0; i < p.batch; ++i) {
    const std::vector<double> left = rows_of(unit, a, i, p.m, p.k, p.a_transposed);
    const std::vector<double> right = rows_of(unit, b, i, p.n, p.k, !p.b_transposed);
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        const double *from_a = left.data() + m * p.k, *from_b = right.data() + n * p.k;
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const double term = from_a[k] * from_b[k];
          sum += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(c[static_cast<size_t>((i * p.m + m) * p.n + n)], sum,
                    allowed * magnitude + rounding_of(x.c.dtype()) * std::abs(sum))
            << "element " << m << ", " << n << " of product " << i;
      }
    }
  }
}

constexpr Product kSizes[] = {{1, 32, 32, 32},   {1, 1, 1, 1},     {1, 16, 17, 33},  {1, 47, 5, 31},
                              {3, 33, 49, 70},   {1, 130, 66, 50}, {2, 20, 260, 64}, {1, 70, 450, 40},
                              {1, 40, 40, 1300}, {5, 1, 64, 20},   {1, 13, 96, 781}, {1, 15, 520, 1024}};

TEST_P(ProductOn, IsAsExactAsF32InEverySizeAndForm) {
  for (Product p : kSizes) {
    for (const int form : {0, 1, 2, 3}) {
      p.a_transposed = (form & 1) != 0;
      p.b_transposed = (form & 2) != 0;
      for (const DType from : {DType::kF32, DType::kBF16}) {
        for (const DType to : {DType::kF32, DType::kBF16}) {
          if (from == DType::kF32 && to != from) continue;
          SCOPED_TRACE(::testing::Message() << p.batch << " x " << p.m << " " << p.n << " " << p.k << " form " << form << ", "
                                            << dtype_name(from) << " -> " << dtype_name(to));
          Operands x(p, from, to);
          x.run(unit(), p, 2);
          expect_exact(unit(), p, x);
        }
      }
    }
  }
}

// More than is packed at once.
TEST_P(ProductOn, IsExactWhenItIsTakenInChunks) {
  const DType from = unit().dtype;
  for (const bool transposed : {false, true}) {
    for (const DType to : {DType::kF32, from}) {
      const Product p{.batch = 1, .m = 9, .n = 1100, .k = 4101, .a_transposed = transposed};
      Operands x(p, from, to);
      x.run(unit(), p, 2);
      expect_exact(unit(), p, x);
    }
  }
}

TEST_P(ProductOn, DoesNotDependOnTheThreads) {
  for (const bool transposed : {false, true}) {
    const Product p{.batch = 1, .m = 300, .n = 500, .k = 700, .a_transposed = transposed};
    Operands one(p, unit().dtype, DType::kF32), three(p, unit().dtype, DType::kF32);
    one.run(unit(), p, 1);
    three.run(unit(), p, 3);
    EXPECT_EQ(one.c.read(), three.c.read());
  }
}

// In one chunk and in several.
TEST_P(ProductOn, IsTheSameWithARightSideThatWasPackedBefore) {
  std::vector<Product> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.push_back({.batch = 1, .m = 9, .n = 1100, .k = 4101});
  for (Product p : sizes) {
    for (const bool transposed : {false, true}) {
      p.batch = 1;
      p.b_transposed = transposed;
      const DType dtype = unit().dtype;
      Operands want(p, dtype, DType::kF32), got(p, dtype, DType::kF32);
      want.run(unit(), p, 2);
      PackedBytes packed(packed_right_bytes(unit(), p, dtype));
      pack_right(unit(), p, {got.b.data(), dtype}, packed.data(), on_threads(2));
      multiply_on(unit(), p, {got.a.data(), dtype}, {packed.data(), dtype, true}, {got.c.data(), DType::kF32}, on_threads(2));
      EXPECT_EQ(got.c.read(), want.c.read()) << p.m << " " << p.n << " " << p.k << (transposed ? " transposed" : "");
    }
  }
}

TEST_P(ProductOn, KeepsLargeSmallAndBrokenNumbers) {
  const Product p{.batch = 1, .m = 3, .n = 1, .k = 2};
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float digits = unit().dtype == DType::kF32 ? 1 + 0x1p-23F : 1 + 0x1p-7F;  // the last one
  std::vector<float> a = {0x1p100F, digits, inf, 1, nan, 0}, b = {0x1p-90F, 1};
  std::vector<float> c(3);
  multiply_on(unit(), p, {a.data(), DType::kF32}, {b.data(), DType::kF32}, {c.data(), DType::kF32}, on_threads(1));
  EXPECT_EQ(c[0], 0x1p10F + digits);
  EXPECT_FALSE(std::isfinite(c[1])) << "an infinite operand may not pass for a finite result";
  EXPECT_TRUE(std::isnan(c[2]));
}

TEST(Unit, TheFastestIsTakenForEachDtype) {
  EXPECT_EQ(&unit_for(DType::kF32), tiles_available() ? &tile_unit() : &vector_unit());
  EXPECT_EQ(unit_for(DType::kBF16).dtype == DType::kBF16, vector_bf16_available() || tiles_available());
}

}  // namespace
}  // namespace tessera::host
