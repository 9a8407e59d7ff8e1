// Dense layers and their gradient, on every unit of this processor, against the formulas in f64.

#include "host/dense.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "host/kernels_testing.h"
#include "host/units/rows.h"

namespace tessera::host {
namespace {

using ir::DenseInput;

using Doubles = std::vector<double>;

class DenseOn : public testing::TestWithParam<NamedUnit> {
 protected:
  const Unit& unit() const { return *GetParam().unit; }
};
INSTANTIATE_TEST_SUITE_P(Units, DenseOn, testing::ValuesIn(units()), [](const auto& unit) { return unit.param.name; });

double distribution(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

// GELU by tanh, and its derivative.
struct ByTanh {
  double value, slope;
  explicit ByTanh(double x) {
    const double root = std::sqrt(2 / std::numbers::pi), t = std::tanh(root * (x + 0.044715 * x * x * x));
    value = x / 2 * (1 + t);
    slope = (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
  }
};

// The arrays of a layer, and what the kernel makes of them.
struct Arrays {
  explicit Arrays(const Dense& d)
      : x(d.dtype, normal_numbers(d.rows * d.in, 1)),
        residual(d.dtype, normal_numbers(d.rows * d.out, 6)),
        dy(d.dtype, normal_numbers(d.rows * d.out, 7)),
        add(d.dtype, normal_numbers(d.rows * d.in, 8)),
        y(d.dtype, std::vector<float>(static_cast<size_t>(d.rows * d.out))),
        dx(d.dtype, std::vector<float>(static_cast<size_t>(d.rows * d.in))),
        // Exact in bf16 too, as the references take them.
        kernel(Numbers(d.dtype, normal_numbers(d.in * d.out, 2)).read()),
        bias(normal_numbers(d.out, 3)),
        scale(normal_numbers(d.in, 4)),
        offset(normal_numbers(d.in, 5)),
        dkernel(kernel.size()),
        dbias(bias.size()),
        dscale(scale.size()),
        doffset(offset.size()) {}

  void run(const Unit& unit, const Dense& d, bool additions, int threads) {
    const bool norm = d.input == DenseInput::kNorm;
    const float *s = norm ? scale.data() : nullptr, *o = norm ? offset.data() : nullptr;
    dense_on(unit, d, {x.data(), kernel.data(), bias.data(), s, o, additions ? residual.data() : nullptr}, y.data(),
             on_threads(threads));
    dense_gradient_on(
        unit, d, {dy.data(), x.data(), kernel.data(), s, o, norm && additions ? add.data() : nullptr},
        {dx.data(), dkernel.data(), dbias.data(), norm ? dscale.data() : nullptr, norm ? doffset.data() : nullptr},
        on_threads(threads));
  }

  Numbers x, residual, dy, add, y, dx;
  std::vector<float> kernel, bias, scale, offset, dkernel, dbias, dscale, doffset;
};

// The same in f64, row after row.
struct Reference {
  Doubles y, dx, dkernel, dbias, dscale, doffset;

  Reference(const Dense& d, const Arrays& a, bool additions)
      : y(static_cast<size_t>(d.rows * d.out)),
        dx(static_cast<size_t>(d.rows * d.in)),
        dkernel(a.dkernel.size()),
        dbias(a.dbias.size()),
        dscale(a.dscale.size()),
        doffset(a.doffset.size()) {
    for (size_t r = 0; r < static_cast<size_t>(d.rows); ++r) add_row(d, a, additions, r);
  }

 private:
  void add_row(const Dense& d, const Arrays& a, bool additions, size_t r) {
    const auto in = static_cast<size_t>(d.in), out = static_cast<size_t>(d.out);
    const std::vector<float>& numbers = a.x.f32();
    const Doubles x(numbers.begin() + static_cast<ptrdiff_t>(r * in), numbers.begin() + static_cast<ptrdiff_t>((r + 1) * in));
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / static_cast<double>(in);
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(in);
    const double inverse = 1 / std::sqrt(variance + d.epsilon);
    Doubles normal(in), input = x, dinput(in);
    for (size_t i = 0; i < in; ++i) {
      normal[i] = (x[i] - mean) * inverse;
      if (d.input == DenseInput::kNorm) input[i] = normal[i] * a.scale[i] + a.offset[i];
      if (d.input == DenseInput::kGelu) input[i] = x[i] * distribution(x[i]);
      if (d.input == DenseInput::kGeluTanh) input[i] = ByTanh(x[i]).value;
    }
    // Along the rows of the kernel, and by pointers, because these loops are most of the time of tests that are not optimised.
    const float *dy = &a.dy.f32()[r * out], *k = a.kernel.data();
    double *sum = &y[r * out], *dk = dkernel.data();
    for (size_t o = 0; o < out; ++o) {
      sum[o] = a.bias[o] + (additions ? static_cast<double>(a.residual.f32()[r * out + o]) : 0.0);
      dbias[o] += dy[o];
    }
    for (size_t i = 0; i < in; ++i, k += out, dk += out) {
      const double from = input[i];
      double along_row = 0;
      for (size_t o = 0; o < out; ++o) {
        sum[o] += from * k[o];
        along_row += static_cast<double>(dy[o]) * k[o];
        dk[o] += from * dy[o];
      }
      dinput[i] = along_row;
    }
    double mean_g = 0, along = 0;
    for (size_t i = 0; i < in; ++i) {
      mean_g += dinput[i] * a.scale[i] / static_cast<double>(in);
      along += dinput[i] * a.scale[i] * normal[i] / static_cast<double>(in);
    }
    for (size_t i = 0; i < in; ++i) {
      double& to = dx[r * in + i];
      to = dinput[i];
      if (d.input == DenseInput::kGelu) to *= distribution(x[i]) + x[i] * density(x[i]);
      if (d.input == DenseInput::kGeluTanh) to *= ByTanh(x[i]).slope;
      if (d.input != DenseInput::kNorm) continue;
      to = inverse * (dinput[i] * a.scale[i] - mean_g - normal[i] * along) +
           (additions ? static_cast<double>(a.add.f32()[r * in + i]) : 0.0);
      dscale[i] += dinput[i] * normal[i];
      doffset[i] += dinput[i];
    }
  }
};

// Of the largest number: 64 roundings. The errors of a sum of n products grow as a random walk does, so that of 1,100 has √1100,
// 33 of them, and what is normalised or a GELU before has some of its own.
constexpr double kRoundings = 64 * 0x1p-24;

void expect_close(const std::vector<float>& got, const Doubles& want, const char* what, double tolerance = kRoundings) {
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error = std::max(error, std::abs(got[i] - want[i]));
    size = std::max(size, std::abs(want[i]));
  }
  EXPECT_LE(error, tolerance * size) << what;
}

// The last two have more weights than a gradient keeps in a cache.
constexpr Dense kSizes[] = {{32, 32, 32},  {1, 1, 1},      {2, 5, 3},      {130, 96, 288}, {700, 96, 100},
                            {513, 48, 96}, {300, 384, 96}, {1100, 33, 47}, {90, 400, 410}, {301, 384, 385}};

constexpr DenseInput kInputs[] = {DenseInput::kPlain, DenseInput::kNorm, DenseInput::kGelu, DenseInput::kGeluTanh};

TEST_P(DenseOn, FollowsTheFormulas) {
  for (Dense d : kSizes) {
    d.epsilon = 1e-6;
    d.dtype = unit().dtype;
    for (const DenseInput input : kInputs) {
      for (const bool additions : {false, true}) {
        // Over one or two numbers a norm's gradient is the difference of equal numbers.
        if (input == DenseInput::kNorm && d.in < 5) continue;
        SCOPED_TRACE(testing::Message() << d.rows << " x " << d.in << " -> " << d.out << ", input " << static_cast<int>(input)
                                        << (additions ? ", with additions" : ""));
        d.input = input;
        Arrays a(d);
        a.run(unit(), d, additions, 2);
        const Reference want(d, a, additions);
        // In bf16 what the unit multiplies is rounded, and so are y and dx: each by 2^-8 of the largest number at most.
        const double tolerance = d.dtype == DType::kBF16 ? 3 * 0x1p-8 : kRoundings;
        expect_close(a.y.read(), want.y, "y", tolerance);
        expect_close(a.dx.read(), want.dx, "dx", tolerance);
        expect_close(a.dkernel, want.dkernel, "dkernel", tolerance);
        expect_close(a.dbias, want.dbias, "dbias");
        if (input != DenseInput::kNorm) continue;
        expect_close(a.dscale, want.dscale, "dscale");
        expect_close(a.doffset, want.doffset, "doffset");
      }
    }
  }
}

TEST_P(DenseOn, IsTheSameWithWeightsThatWerePackedBefore) {
  for (Dense d : kSizes) {
    d.dtype = unit().dtype;
    Arrays a(d);
    dense_on(unit(), d, {a.x.data(), a.kernel.data(), a.bias.data()}, a.y.data(), on_threads(2));
    const std::vector<float> want = a.y.read();
    PackedBytes packed(packed_dense_bytes(unit(), d.in, d.out));
    pack_dense(unit(), d.in, d.out, a.kernel.data(), packed.data(), on_threads(2));
    DenseArguments arguments{a.x.data(), nullptr, a.bias.data()};
    arguments.packed = packed.data();
    a.y = Numbers(d.dtype, std::vector<float>(want.size()));
    dense_on(unit(), d, arguments, a.y.data(), on_threads(2));
    EXPECT_EQ(a.y.read(), want) << d.rows << " x " << d.in << " -> " << d.out;
  }
}

// bf16 arrays on a unit that multiplies f32: numbers are widened, and rounded at the end alone.
TEST(Dense, Bf16OnAUnitOfF32) {
  for (const DenseInput input : kInputs) {
    for (const auto& [rows, in, out] : {std::array<int64_t, 3>{130, 96, 70}, {90, 400, 410}}) {
      const Dense d{rows, in, out, input, 1e-6, DType::kBF16};
      Arrays a(d);
      a.run(vector_unit(), d, true, 2);
      const Reference want(d, a, true);
      expect_close(a.y.read(), want.y, "y", 0x1p-7);
      expect_close(a.dx.read(), want.dx, "dx", 0x1p-7);
      expect_close(a.dkernel, want.dkernel, "dkernel");
      expect_close(a.dbias, want.dbias, "dbias");
    }
  }
}

TEST_P(DenseOn, DoesNotDependOnTheThreads) {
  for (const int64_t out : {70, 1600}) {
    const Dense d{1500, 96, out, DenseInput::kNorm, 1e-6, unit().dtype};
    Arrays one(d), three(d);
    one.run(unit(), d, true, 1);
    three.run(unit(), d, true, 3);
    EXPECT_EQ(one.y.read(), three.y.read());
    EXPECT_EQ(one.dx.read(), three.dx.read());
    EXPECT_EQ(one.dkernel, three.dkernel);
    EXPECT_EQ(one.dbias, three.dbias);
    EXPECT_EQ(one.dscale, three.dscale);
  }
}

TEST_P(DenseOn, ANaNStaysOne) {
  for (const DenseInput input : kInputs) {
    for (const int64_t in : {20, 6200}) {
      const Dense d{40, in, 24, input, 1e-6, unit().dtype};
      Arrays a(d);
      std::vector<float> x = a.x.read();
      x[0] = std::nanf("");
      a.x = Numbers(d.dtype, x);
      a.run(unit(), d, false, 1);
      EXPECT_TRUE(std::isnan(a.y.read()[0]));
      EXPECT_TRUE(std::isnan(a.dkernel[0]));
      EXPECT_FALSE(std::isnan(a.y.read()[24])) << "of the next row";
    }
  }
}

TEST(Rows, Bf16IsTheNearestTiesToEven) {
  std::vector<float> x;
  for (uint32_t high = 0; high < 0x10000; high += 7) {
    for (const uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) x.push_back(std::bit_cast<float>(high << 16 | low));
  }
  const auto count = static_cast<int64_t>(x.size());
  std::vector<uint16_t> bits(x.size());
  std::vector<float> back(x.size());
  narrow(x.data(), count, bits.data());
  widen(bits.data(), count, back.data());
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      ASSERT_TRUE(std::isnan(back[i])) << i;
    } else {
      ASSERT_EQ(bits[i], float_to_bf16(x[i])) << x[i];
      ASSERT_EQ(back[i], bf16_to_float(bits[i]));
    }
  }
}

TEST(Rows, GeluIsExactEverywhere) {
  std::vector<float> x;
  for (float v = -16; v <= 16; v += 0x1p-9F) x.push_back(v);
  x.insert(x.end(), {-100, -1e30F, 100, 1e30F, 0x1p-100F, 0});
  std::vector<float> y(x.size()), again(x.size()), slope(x.size());
  gelu_numbers(x.data(), static_cast<int64_t>(x.size()), y.data());
  gelu_numbers(x.data(), static_cast<int64_t>(x.size()), again.data(), slope.data());
  EXPECT_EQ(y, again);
  std::vector<float> tanh_y(x.size()), tanh_slope(x.size());
  gelu_tanh_numbers(x.data(), static_cast<int64_t>(x.size()), again.data());
  gelu_tanh_numbers(x.data(), static_cast<int64_t>(x.size()), tanh_y.data(), tanh_slope.data());
  EXPECT_EQ(tanh_y, again);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    ASSERT_NEAR(y[i], v * distribution(v), 0x1p-22 * std::max(1.0, std::abs(v))) << v;
    ASSERT_NEAR(slope[i], distribution(v) + v * density(v), 0x1p-21) << v;
    if (v >= 0 || v < -12) continue;
    const ByTanh by_tanh(v);
    ASSERT_NEAR(tanh_y[i], by_tanh.value, 0x1p-21 * std::max(1.0, std::abs(v))) << v;
    ASSERT_NEAR(tanh_slope[i], std::abs(v) < 1e6 ? by_tanh.slope : (v > 0 ? 1 : 0), 0x1p-20) << v;
    // Far out on the left too, where little is left, its digits are right: as many as those of v^2 / 2 allow.
    ASSERT_NEAR(y[i] / (v * distribution(v)), 1, 2e-6 + v * v * 0x1p-24) << v;
  }
}

}  // namespace
}  // namespace tessera::host
