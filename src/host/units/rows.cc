// Highway compiles this file once for each instruction set and picks one when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/units/rows.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "host/units/bf16-inl.h"
#include "host/units/exponential-inl.h"
#include "host/units/rows.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What is not exported is local: position-independent code does not inline functions that others could replace.
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
HWY_INLINE V number(float x) { return hn::Set(D(), x); }

// A whole vector of numbers, or the last `count` of a row. Past the end nothing is read: zeros stand there.
struct Whole {};
struct Tail {
  int64_t count;
};
HWY_INLINE V load(const float* x, Whole) { return hn::LoadU(D(), x); }
HWY_INLINE void store(V v, float* x, Whole) { hn::StoreU(v, D(), x); }
HWY_INLINE V inside(V v, Whole) { return v; }
HWY_INLINE V load(const float* x, Tail part) {
  HWY_ALIGN float block[16] = {};
  std::copy_n(x, part.count, block);
  return hn::Load(D(), block);
}
HWY_INLINE void store(V v, float* x, Tail part) {
  HWY_ALIGN float block[16];
  hn::Store(v, D(), block);
  std::copy_n(block, part.count, x);
}
// The same of 16 bits each.
using DH = Bits<D>;
HWY_INLINE hn::Vec<DH> load_bits(const uint16_t* x, Whole) { return hn::LoadU(DH(), x); }
HWY_INLINE void store_bits(hn::Vec<DH> v, uint16_t* x, Whole) { hn::StoreU(v, DH(), x); }
HWY_INLINE hn::Vec<DH> load_bits(const uint16_t* x, Tail part) {
  HWY_ALIGN uint16_t block[16] = {};
  std::copy_n(x, part.count, block);
  return hn::Load(DH(), block);
}
HWY_INLINE void store_bits(hn::Vec<DH> v, uint16_t* x, Tail part) {
  HWY_ALIGN uint16_t block[16];
  hn::Store(v, DH(), block);
  std::copy_n(block, part.count, x);
}
// bf16 numbers as f32, and rounded from it.
template <class Extent>
HWY_INLINE V load(const uint16_t* x, Extent extent) {
  return widened(D(), load_bits(x, extent));
}
template <class Extent>
HWY_INLINE void store(V v, uint16_t* x, Extent extent) {
  store_bits(narrowed(D(), v), x, extent);
}
// With zeros past the end.
HWY_INLINE V inside(V v, Tail part) { return hn::IfThenElseZero(hn::FirstN(D(), static_cast<size_t>(part.count)), v); }

// Calls act(i, extent) for each vector of `count` numbers.
template <class Act>
HWY_INLINE void each_vector(int64_t count, const Act& act) {
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) act(i, Whole());
  if (i < count) act(i, Tail{count - i});
}

// |x|, at most `most`; a NaN stays one.
HWY_INLINE V magnitude(V x, float most) {
  const V u = hn::Abs(x);
  return hn::IfThenElse(hn::Gt(u, number(most)), number(most), u);
}

// Phi(x) and exp(-x^2 / 2). With u = |x|, Phi(-u) exp(u^2 / 2) is smooth in t = 1 / (1 + u / 4), as in Abramowitz and Stegun
// 7.1.26; the coefficients are a minimax fit over u in [0, 14], found by reweighted least squares, exact to 4e-11.
struct Normal {
  V distribution, bell;
};
HWY_INLINE Normal normal(V x) {
  constexpr float kFit[] = {0.035911135F,  -0.20477906F, 0.40935895F,  -0.3431068F, 0.30285814F,
                            -0.013195981F, 0.11643427F,  0.096600726F, 0.09991865F};
  // Further out both are 0 or 1.
  const V u = magnitude(x, 14.375F), one = number(1), t = hn::Div(one, hn::MulAdd(u, number(0.25F), one));
  Normal out;
  out.bell = exponential(D(), hn::Mul(hn::Mul(u, u), number(-0.5F)));
  V sum = number(kFit[0]);
  for (size_t i = 1; i < std::size(kFit); ++i) sum = hn::MulAdd(sum, t, number(kFit[i]));
  const V tail = hn::Mul(hn::Mul(sum, t), out.bell);
  out.distribution = hn::IfThenElse(hn::Lt(x, hn::Zero(D())), tail, hn::Sub(one, tail));
  return out;
}

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), with u as in rows.h, and the derivative of 2 u.
struct Gate {
  V share, slope;
};
HWY_INLINE Gate gate(V x) {
  const V one = number(1), squared = hn::Mul(x, x);
  const V twice = number(2 * std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>);
  const V u = hn::Mul(hn::Mul(twice, x), hn::MulAdd(squared, number(0.044715F), one));
  const V small = exponential(D(), hn::Neg(magnitude(u, 104)));
  const V whole = hn::Div(one, hn::Add(one, small));
  return {hn::IfThenElse(hn::Lt(u, hn::Zero(D())), hn::Mul(small, whole), whole),
          hn::Mul(twice, hn::MulAdd(squared, number(3 * 0.044715F), one))};
}

HWY_INLINE float sum_of(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

// A row's mean, and one over the root of its variance plus epsilon.
struct Moments {
  float mean, inverse;
};
HWY_INLINE Moments moments(const float* x, int64_t width, double epsilon) {
  V sum = hn::Zero(D());
  each_vector(width, [&](int64_t i, auto extent) { sum = hn::Add(sum, load(x + i, extent)); });
  const float share = 1 / static_cast<float>(width), mean = sum_of(sum) * share;
  const V centre = number(mean);
  V squares = hn::Zero(D());
  each_vector(width, [&](int64_t i, auto extent) {
    const V off = inside(hn::Sub(load(x + i, extent), centre), extent);
    squares = hn::MulAdd(off, off, squares);
  });
  return {mean, 1 / std::sqrt(sum_of(squares) * share + static_cast<float>(epsilon))};
}

}  // namespace

void norm_rows(RowShape shape, double epsilon, const float* x, const float* scale, const float* offset, float* y, float* mean,
               float* inverse) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* from = x + r * shape.width;
    float* to = y + r * shape.width;
    const Moments of = moments(from, shape.width, epsilon);
    mean[r] = of.mean, inverse[r] = of.inverse;
    const V centre = number(of.mean), factor = number(of.inverse);
    each_vector(shape.width, [&](int64_t i, auto extent) {
      const V normal = hn::Mul(hn::Sub(load(from + i, extent), centre), factor);
      store(hn::MulAdd(normal, load(scale + i, extent), load(offset + i, extent)), to + i, extent);
    });
  }
}

void norm_gradient_rows(RowShape shape, const float* x, const float* scale, const float* mean, const float* inverse,
                        const float* add, float* dy, float* dscale, float* doffset) {
  const float share = 1 / static_cast<float>(shape.width);
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* from = x + r * shape.width;
    float* gradient = dy + r * shape.width;
    const V centre = number(mean[r]), factor = number(inverse[r]);
    const auto normal = [&](int64_t i, auto extent) {
      return hn::Mul(inside(hn::Sub(load(from + i, extent), centre), extent), factor);
    };
    V sum = hn::Zero(D()), along = hn::Zero(D());
    each_vector(shape.width, [&](int64_t i, auto extent) {
      const V d = load(gradient + i, extent), n = normal(i, extent), g = hn::Mul(d, load(scale + i, extent));
      store(hn::Add(load(doffset + i, extent), d), doffset + i, extent);
      store(hn::MulAdd(d, n, load(dscale + i, extent)), dscale + i, extent);
      sum = hn::Add(sum, g);
      along = hn::MulAdd(g, n, along);
    });
    const V mean_g = number(sum_of(sum) * share), mean_along = number(sum_of(along) * share);
    each_vector(shape.width, [&](int64_t i, auto extent) {
      const V g = hn::Mul(load(gradient + i, extent), load(scale + i, extent));
      const V inner = hn::NegMulAdd(normal(i, extent), mean_along, hn::Sub(g, mean_g));
      const V rest = add ? load(add + r * shape.width + i, extent) : hn::Zero(D());
      store(hn::MulAdd(inner, factor, rest), gradient + i, extent);
    });
  }
}

template <class Number>
HWY_INLINE void gelu_of(const Number* x, int64_t count, Number* y) {
  each_vector(count, [&](int64_t i, auto extent) {
    const V v = load(x + i, extent);
    store(hn::Mul(v, normal(v).distribution), y + i, extent);
  });
}
void gelu(const float* x, int64_t count, float* y) { gelu_of(x, count, y); }
void gelu_bf16(const uint16_t* x, int64_t count, uint16_t* y) { gelu_of(x, count, y); }

template <class Number>
HWY_INLINE void gelu_and_slope_of(const Number* x, int64_t count, Number* y, float* slope) {
  const V peak = number(std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>);
  each_vector(count, [&](int64_t i, auto extent) {
    const V v = load(x + i, extent);
    const Normal n = normal(v);
    store(hn::Mul(v, n.distribution), y + i, extent);
    store(hn::MulAdd(hn::Mul(v, n.bell), peak, n.distribution), slope + i, extent);
  });
}
void gelu_and_slope(const float* x, int64_t count, float* y, float* slope) { gelu_and_slope_of(x, count, y, slope); }
void gelu_and_slope_bf16(const uint16_t* x, int64_t count, uint16_t* y, float* slope) { gelu_and_slope_of(x, count, y, slope); }

template <class Number>
HWY_INLINE void gelu_tanh_of(const Number* x, int64_t count, Number* y) {
  each_vector(count, [&](int64_t i, auto extent) {
    const V v = load(x + i, extent);
    store(hn::Mul(v, gate(v).share), y + i, extent);
  });
}
void gelu_tanh(const float* x, int64_t count, float* y) { gelu_tanh_of(x, count, y); }
void gelu_tanh_bf16(const uint16_t* x, int64_t count, uint16_t* y) { gelu_tanh_of(x, count, y); }

template <class Number>
HWY_INLINE void gelu_tanh_and_slope_of(const Number* x, int64_t count, Number* y, float* slope) {
  each_vector(count, [&](int64_t i, auto extent) {
    const V v = load(x + i, extent);
    const Gate g = gate(v);
    const V value = hn::Mul(v, g.share);
    store(value, y + i, extent);
    // share + x share (1 - share) (2 u)'. Where the share is 0 or 1 to the last digit, (2 u)' may be too large to multiply.
    const V rest = hn::NegMulAdd(value, g.share, value);
    const auto saturated = hn::Eq(rest, hn::Zero(D()));
    store(hn::IfThenElse(saturated, g.share, hn::MulAdd(rest, g.slope, g.share)), slope + i, extent);
  });
}
void gelu_tanh_and_slope(const float* x, int64_t count, float* y, float* slope) { gelu_tanh_and_slope_of(x, count, y, slope); }
void gelu_tanh_and_slope_bf16(const uint16_t* x, int64_t count, uint16_t* y, float* slope) {
  gelu_tanh_and_slope_of(x, count, y, slope);
}

template <class Number>
HWY_INLINE void multiply(const float* x, const float* factor, int64_t count, Number* y) {
  each_vector(count,
              [&](int64_t i, auto extent) { store(hn::Mul(load(x + i, extent), load(factor + i, extent)), y + i, extent); });
}
void multiply_numbers(const float* factor, int64_t count, float* x) { multiply(x, factor, count, x); }
void multiply_numbers_bf16(const float* x, const float* factor, int64_t count, uint16_t* y) { multiply(x, factor, count, y); }

template <class Number>
HWY_INLINE void add_rows(RowShape shape, const float* row, const float* x, int64_t x_stride, const Number* add, Number* y,
                         int64_t y_stride) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    each_vector(shape.width, [&](int64_t i, auto extent) {
      V v = hn::Add(load(x + r * x_stride + i, extent), load(row + i, extent));
      if (add) v = hn::Add(v, load(add + r * y_stride + i, extent));
      store(v, y + r * y_stride + i, extent);
    });
  }
}
void add_to_rows(RowShape shape, const float* row, const float* add, float* y) {
  add_rows(shape, row, y, shape.width, add, y, shape.width);
}
void add_to_rows_bf16(RowShape shape, const float* row, const float* x, int64_t x_stride, const uint16_t* add, uint16_t* y,
                      int64_t y_stride) {
  add_rows(shape, row, x, x_stride, add, y, y_stride);
}

template <class Number>
HWY_INLINE void add_columns(RowShape shape, const Number* x, float* sums) {
  each_vector(shape.width, [&](int64_t i, auto extent) {
    V sum = hn::Zero(D());
    for (int64_t r = 0; r < shape.rows; ++r) sum = hn::Add(sum, load(x + r * shape.width + i, extent));
    store(hn::Add(load(sums + i, extent), sum), sums + i, extent);
  });
}
void add_column_sums(RowShape shape, const float* x, float* sums) { add_columns(shape, x, sums); }
void add_column_sums_bf16(RowShape shape, const uint16_t* x, float* sums) { add_columns(shape, x, sums); }

void add_numbers(const float* x, int64_t count, float* sums) {
  each_vector(count,
              [&](int64_t i, auto extent) { store(hn::Add(load(sums + i, extent), load(x + i, extent)), sums + i, extent); });
}

void column_moments(RowShape shape, const float* x, float* mean, float* squares) {
  const V share = number(1 / static_cast<float>(shape.rows));
  std::fill_n(mean, shape.width, 0.0F);
  std::fill_n(squares, shape.width, 0.0F);
  for (int64_t r = 0; r < shape.rows; ++r) add_numbers(x + r * shape.width, shape.width, mean);
  each_vector(shape.width, [&](int64_t i, auto extent) { store(hn::Mul(load(mean + i, extent), share), mean + i, extent); });
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* row = x + r * shape.width;
    each_vector(shape.width, [&](int64_t i, auto extent) {
      const V off = hn::Sub(load(row + i, extent), load(mean + i, extent));
      store(hn::MulAdd(off, off, load(squares + i, extent)), squares + i, extent);
    });
  }
}

template <class Number>
HWY_INLINE void normalize(RowShape shape, const ColumnNorm& norm, const float* x, int64_t x_stride, const Number* add,
                          Number* y, int64_t y_stride) {
  const V zero = hn::Zero(D());
  for (int64_t r = 0; r < shape.rows; ++r) {
    each_vector(shape.width, [&](int64_t i, auto extent) {
      const V off = hn::Sub(load(x + r * x_stride + i, extent), load(norm.mean + i, extent));
      V v = hn::MulAdd(off, load(norm.factor + i, extent), load(norm.offset + i, extent));
      if (add) v = hn::Add(v, load(add + r * y_stride + i, extent));
      // A NaN is not below 0, and stays.
      if (norm.relu) v = hn::IfThenElse(hn::Lt(v, zero), zero, v);
      store(v, y + r * y_stride + i, extent);
    });
  }
}
void normalize_columns(RowShape shape, const ColumnNorm& norm, const float* x, const float* add, float* y) {
  normalize(shape, norm, x, shape.width, add, y, shape.width);
}
void normalize_columns_bf16(RowShape shape, const ColumnNorm& norm, const float* x, int64_t x_stride, const uint16_t* add,
                            uint16_t* y, int64_t y_stride) {
  normalize(shape, norm, x, x_stride, add, y, y_stride);
}

void add_norm_sums(RowShape shape, const float* x, const float* dy, const float* y, const float* mean, float* sums,
                   float* along) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    const int64_t at = r * shape.width;
    each_vector(shape.width, [&](int64_t i, auto extent) {
      V g = load(dy + at + i, extent);
      if (y) g = hn::IfThenElseZero(hn::Gt(load(y + at + i, extent), hn::Zero(D())), g);
      const V off = hn::Sub(load(x + at + i, extent), load(mean + i, extent));
      store(hn::Add(load(sums + i, extent), g), sums + i, extent);
      store(hn::MulAdd(g, off, load(along + i, extent)), along + i, extent);
    });
  }
}

void normalize_columns_gradient(RowShape shape, const ColumnGradient& c, const float* x, const float* dy, const float* y,
                                float* masked, float* dx) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    const int64_t at = r * shape.width;
    each_vector(shape.width, [&](int64_t i, auto extent) {
      V g = load(dy + at + i, extent);
      if (y) g = hn::IfThenElseZero(hn::Gt(load(y + at + i, extent), hn::Zero(D())), g);
      const V off = hn::Sub(load(x + at + i, extent), load(c.mean + i, extent));
      const V inner = hn::NegMulAdd(off, load(c.slope + i, extent), hn::Sub(g, load(c.mean_g + i, extent)));
      if (masked) store(g, masked + at + i, extent);
      store(hn::Mul(inner, load(c.factor + i, extent)), dx + at + i, extent);
    });
  }
}

void widen(const uint16_t* x, int64_t count, float* y) {
  each_vector(count, [&](int64_t i, auto extent) { store(load(x + i, extent), y + i, extent); });
}

void narrow(const float* x, int64_t count, uint16_t* y) {
  each_vector(count, [&](int64_t i, auto extent) { store(load(x + i, extent), y + i, extent); });
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::host {
namespace {
HWY_EXPORT(norm_rows);
HWY_EXPORT(norm_gradient_rows);
HWY_EXPORT(gelu);
HWY_EXPORT(gelu_and_slope);
HWY_EXPORT(gelu_tanh);
HWY_EXPORT(gelu_tanh_and_slope);
HWY_EXPORT(multiply_numbers);
HWY_EXPORT(add_to_rows);
HWY_EXPORT(add_column_sums);
HWY_EXPORT(add_numbers);
HWY_EXPORT(column_moments);
HWY_EXPORT(normalize_columns);
HWY_EXPORT(add_norm_sums);
HWY_EXPORT(normalize_columns_gradient);
HWY_EXPORT(gelu_bf16);
HWY_EXPORT(gelu_and_slope_bf16);
HWY_EXPORT(gelu_tanh_bf16);
HWY_EXPORT(gelu_tanh_and_slope_bf16);
HWY_EXPORT(add_column_sums_bf16);
HWY_EXPORT(multiply_numbers_bf16);
HWY_EXPORT(add_to_rows_bf16);
HWY_EXPORT(normalize_columns_bf16);
HWY_EXPORT(widen);
HWY_EXPORT(narrow);
}  // namespace

void norm_rows(RowShape shape, double epsilon, const float* x, const float* scale, const float* offset, float* y, float* mean,
               float* inverse) {
  HWY_DYNAMIC_DISPATCH(norm_rows)(shape, epsilon, x, scale, offset, y, mean, inverse);
}
void norm_gradient_rows(RowShape shape, const float* x, const float* scale, const float* mean, const float* inverse,
                        const float* add, float* dy, float* dscale, float* doffset) {
  HWY_DYNAMIC_DISPATCH(norm_gradient_rows)(shape, x, scale, mean, inverse, add, dy, dscale, doffset);
}
void gelu_numbers(const float* x, int64_t count, float* y) { HWY_DYNAMIC_DISPATCH(gelu)(x, count, y); }
void gelu_numbers(const float* x, int64_t count, float* y, float* slope) {
  HWY_DYNAMIC_DISPATCH(gelu_and_slope)(x, count, y, slope);
}
void gelu_tanh_numbers(const float* x, int64_t count, float* y) { HWY_DYNAMIC_DISPATCH(gelu_tanh)(x, count, y); }
void gelu_tanh_numbers(const float* x, int64_t count, float* y, float* slope) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_and_slope)(x, count, y, slope);
}
void multiply_numbers(const float* factor, int64_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(multiply_numbers)(factor, count, x);
}
void add_to_rows(RowShape shape, const float* row, const float* add, float* y) {
  HWY_DYNAMIC_DISPATCH(add_to_rows)(shape, row, add, y);
}
void add_column_sums(RowShape shape, const float* x, float* sums) { HWY_DYNAMIC_DISPATCH(add_column_sums)(shape, x, sums); }
void add_numbers(const float* x, int64_t count, float* sums) { HWY_DYNAMIC_DISPATCH(add_numbers)(x, count, sums); }
void column_moments(RowShape shape, const float* x, float* mean, float* squares) {
  HWY_DYNAMIC_DISPATCH(column_moments)(shape, x, mean, squares);
}
void normalize_columns(RowShape shape, const ColumnNorm& norm, const float* x, const float* add, float* y) {
  HWY_DYNAMIC_DISPATCH(normalize_columns)(shape, norm, x, add, y);
}
void add_norm_sums(RowShape shape, const float* x, const float* dy, const float* y, const float* mean, float* sums,
                   float* along) {
  HWY_DYNAMIC_DISPATCH(add_norm_sums)(shape, x, dy, y, mean, sums, along);
}
void normalize_columns_gradient(RowShape shape, const ColumnGradient& c, const float* x, const float* dy, const float* y,
                                float* masked, float* dx) {
  HWY_DYNAMIC_DISPATCH(normalize_columns_gradient)(shape, c, x, dy, y, masked, dx);
}
void gelu_numbers(const uint16_t* x, int64_t count, uint16_t* y) { HWY_DYNAMIC_DISPATCH(gelu_bf16)(x, count, y); }
void gelu_numbers(const uint16_t* x, int64_t count, uint16_t* y, float* slope) {
  HWY_DYNAMIC_DISPATCH(gelu_and_slope_bf16)(x, count, y, slope);
}
void gelu_tanh_numbers(const uint16_t* x, int64_t count, uint16_t* y) { HWY_DYNAMIC_DISPATCH(gelu_tanh_bf16)(x, count, y); }
void gelu_tanh_numbers(const uint16_t* x, int64_t count, uint16_t* y, float* slope) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_and_slope_bf16)(x, count, y, slope);
}
void add_column_sums(RowShape shape, const uint16_t* x, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_column_sums_bf16)(shape, x, sums);
}
void multiply_numbers(const float* x, const float* factor, int64_t count, uint16_t* y) {
  HWY_DYNAMIC_DISPATCH(multiply_numbers_bf16)(x, factor, count, y);
}
void add_to_rows(RowShape shape, const float* row, const float* x, int64_t x_stride, const uint16_t* add, uint16_t* y,
                 int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(add_to_rows_bf16)(shape, row, x, x_stride, add, y, y_stride);
}
void normalize_columns(RowShape shape, const ColumnNorm& norm, const float* x, int64_t x_stride, const uint16_t* add,
                       uint16_t* y, int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(normalize_columns_bf16)(shape, norm, x, x_stride, add, y, y_stride);
}
void widen(const uint16_t* x, int64_t count, float* y) { HWY_DYNAMIC_DISPATCH(widen)(x, count, y); }
void narrow(const float* x, int64_t count, uint16_t* y) { HWY_DYNAMIC_DISPATCH(narrow)(x, count, y); }

}  // namespace tessera::host
#endif
