#include "host/rows.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

// The rest of this file runs only where product_f32_available().
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")

namespace tessera::host {
namespace {

constexpr int64_t kLanes = 16;
// Of g++ 12's intrinsics, those that take a mask are the ones that do not warn of uninitialised values.
constexpr __mmask16 kAll = 0xffff;

inline __mmask16 first(int64_t count) { return static_cast<__mmask16>((1U << std::min(count, kLanes)) - 1); }

// Calls act(i, mask) for each vector of `count` numbers.
template <class Act>
inline void each_vector(int64_t count, const Act& act) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) act(i, kAll);
  if (i < count) act(i, first(count - i));
}

inline __m512 load(const float* x, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, x); }
inline void store(float* x, __mmask16 mask, __m512 v) { _mm512_mask_storeu_ps(x, mask, v); }

// For x in [-104, 0] (or NaN), by Taylor's series around the nearest multiple of ln 2.
inline __m512 exponential(__m512 x) {
  constexpr float kUpper = 0x1.62e4p-1F;  // of ln 2, with few enough digits that multiples are exact
  constexpr auto kLower = static_cast<float>(std::numbers::ln2 - static_cast<double>(kUpper));
  constexpr float kTaylor[] = {1.0F / 5040, 1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 1.0F / 2, 1, 1};
  const __m512 n = _mm512_maskz_roundscale_ps(kAll, _mm512_mul_ps(x, _mm512_set1_ps(std::numbers::log2e_v<float>)),
                                              _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kUpper), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLower), r);
  __m512 sum = _mm512_set1_ps(kTaylor[0]);
  for (size_t i = 1; i < std::size(kTaylor); ++i) sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(kTaylor[i]));
  return _mm512_maskz_scalef_ps(kAll, sum, n);
}

// Phi(x) and exp(-x^2 / 2). With u = |x|, Phi(-u) exp(u^2 / 2) is smooth in t = 1 / (1 + u / 4), as in Abramowitz and Stegun
// 7.1.26; the coefficients are a minimax fit over u in [0, 14], found by reweighted least squares, exact to 4e-11.
struct Normal {
  __m512 distribution, bell;
};
inline Normal normal(__m512 x) {
  constexpr float kFit[] = {0.035911135F,  -0.20477906F, 0.40935895F,  -0.3431068F, 0.30285814F,
                            -0.013195981F, 0.11643427F,  0.096600726F, 0.09991865F};
  // Further out both are 0 or 1. A NaN stays: where one of two numbers is NaN, the instruction takes the second.
  const __m512 u = _mm512_maskz_min_ps(kAll, _mm512_set1_ps(14.375F), _mm512_abs_ps(x)), one = _mm512_set1_ps(1);
  // A division in two steps of Newton's method. The instruction is the first: exact to 2^-27.
  const __m512 below = _mm512_fmadd_ps(u, _mm512_set1_ps(0.25F), one), near = _mm512_maskz_rcp14_ps(kAll, below);
  const __m512 t = _mm512_mul_ps(near, _mm512_fnmadd_ps(below, near, _mm512_set1_ps(2)));
  Normal out;
  out.bell = exponential(_mm512_mul_ps(_mm512_mul_ps(u, u), _mm512_set1_ps(-0.5F)));
  __m512 sum = _mm512_set1_ps(kFit[0]);
  for (size_t i = 1; i < std::size(kFit); ++i) sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(kFit[i]));
  const __m512 tail = _mm512_mul_ps(_mm512_mul_ps(sum, t), out.bell);
  const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
  out.distribution = _mm512_mask_mov_ps(_mm512_sub_ps(one, tail), negative, tail);
  return out;
}

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), with u as in rows.h, and the derivative of 2 u.
struct Gate {
  __m512 share, slope;
};
inline Gate gate(__m512 x) {
  const __m512 one = _mm512_set1_ps(1), squared = _mm512_mul_ps(x, x);
  const __m512 twice = _mm512_set1_ps(2 * std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>);
  const __m512 u = _mm512_mul_ps(_mm512_mul_ps(twice, x), _mm512_fmadd_ps(squared, _mm512_set1_ps(0.044715F), one));
  // A NaN stays: where one of two numbers is NaN, the instruction takes the second.
  const __m512 small =
      exponential(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_maskz_min_ps(kAll, _mm512_set1_ps(104), _mm512_abs_ps(u))));
  const __m512 whole = _mm512_div_ps(one, _mm512_add_ps(one, small));
  const __mmask16 negative = _mm512_cmp_ps_mask(u, _mm512_setzero_ps(), _CMP_LT_OQ);
  return {_mm512_mask_mov_ps(whole, negative, _mm512_mul_ps(small, whole)),
          _mm512_mul_ps(twice, _mm512_fmadd_ps(squared, _mm512_set1_ps(3 * 0.044715F), one))};
}

inline float sum_of(__m512 v) {
  v = _mm512_add_ps(v, _mm512_maskz_shuffle_f32x4(kAll, v, v, 0x4e));
  v = _mm512_add_ps(v, _mm512_maskz_shuffle_f32x4(kAll, v, v, 0xb1));
  v = _mm512_add_ps(v, _mm512_maskz_permute_ps(kAll, v, 0x4e));
  v = _mm512_add_ps(v, _mm512_maskz_permute_ps(kAll, v, 0xb1));
  return _mm512_cvtss_f32(v);
}

// A row's mean, and one over the root of its variance plus epsilon.
struct Moments {
  float mean, inverse;
};
inline Moments moments(const float* x, int64_t width, double epsilon) {
  __m512 sum = _mm512_setzero_ps();
  each_vector(width, [&](int64_t i, __mmask16 m) { sum = _mm512_add_ps(sum, load(x + i, m)); });
  const float share = 1 / static_cast<float>(width), mean = sum_of(sum) * share;
  const __m512 centre = _mm512_set1_ps(mean);
  __m512 squares = _mm512_setzero_ps();
  each_vector(width, [&](int64_t i, __mmask16 m) {
    const __m512 off = _mm512_maskz_sub_ps(m, load(x + i, m), centre);
    squares = _mm512_fmadd_ps(off, off, squares);
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
    const __m512 centre = _mm512_set1_ps(of.mean), factor = _mm512_set1_ps(of.inverse);
    each_vector(shape.width, [&](int64_t i, __mmask16 m) {
      const __m512 normal = _mm512_mul_ps(_mm512_sub_ps(load(from + i, m), centre), factor);
      store(to + i, m, _mm512_fmadd_ps(normal, load(scale + i, m), load(offset + i, m)));
    });
  }
}

void norm_gradient_rows(RowShape shape, const float* x, const float* scale, const float* mean, const float* inverse,
                        const float* add, float* dy, float* dscale, float* doffset) {
  const float share = 1 / static_cast<float>(shape.width);
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* from = x + r * shape.width;
    float* gradient = dy + r * shape.width;
    const __m512 centre = _mm512_set1_ps(mean[r]), factor = _mm512_set1_ps(inverse[r]);
    const auto normal = [&](int64_t i, __mmask16 m) {
      return _mm512_mul_ps(_mm512_maskz_sub_ps(m, load(from + i, m), centre), factor);
    };
    __m512 sum = _mm512_setzero_ps(), along = _mm512_setzero_ps();
    each_vector(shape.width, [&](int64_t i, __mmask16 m) {
      const __m512 d = load(gradient + i, m), n = normal(i, m), g = _mm512_mul_ps(d, load(scale + i, m));
      store(doffset + i, m, _mm512_add_ps(load(doffset + i, m), d));
      store(dscale + i, m, _mm512_fmadd_ps(d, n, load(dscale + i, m)));
      sum = _mm512_add_ps(sum, g);
      along = _mm512_fmadd_ps(g, n, along);
    });
    const __m512 mean_g = _mm512_set1_ps(sum_of(sum) * share), mean_along = _mm512_set1_ps(sum_of(along) * share);
    each_vector(shape.width, [&](int64_t i, __mmask16 m) {
      const __m512 g = _mm512_mul_ps(load(gradient + i, m), load(scale + i, m));
      const __m512 inner = _mm512_fnmadd_ps(normal(i, m), mean_along, _mm512_sub_ps(g, mean_g));
      const __m512 rest = add ? load(add + r * shape.width + i, m) : _mm512_setzero_ps();
      store(gradient + i, m, _mm512_fmadd_ps(inner, factor, rest));
    });
  }
}

void gelu_numbers(const float* x, int64_t count, float* y) {
  each_vector(count, [&](int64_t i, __mmask16 m) {
    const __m512 v = load(x + i, m);
    store(y + i, m, _mm512_mul_ps(v, normal(v).distribution));
  });
}

void gelu_numbers(const float* x, int64_t count, float* y, float* slope) {
  const __m512 peak = _mm512_set1_ps(std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>);
  each_vector(count, [&](int64_t i, __mmask16 m) {
    const __m512 v = load(x + i, m);
    const Normal n = normal(v);
    store(y + i, m, _mm512_mul_ps(v, n.distribution));
    store(slope + i, m, _mm512_fmadd_ps(_mm512_mul_ps(v, n.bell), peak, n.distribution));
  });
}

void gelu_tanh_numbers(const float* x, int64_t count, float* y) {
  each_vector(count, [&](int64_t i, __mmask16 m) {
    const __m512 v = load(x + i, m);
    store(y + i, m, _mm512_mul_ps(v, gate(v).share));
  });
}

void gelu_tanh_numbers(const float* x, int64_t count, float* y, float* slope) {
  each_vector(count, [&](int64_t i, __mmask16 m) {
    const __m512 v = load(x + i, m);
    const Gate g = gate(v);
    const __m512 value = _mm512_mul_ps(v, g.share);
    store(y + i, m, value);
    // share + x share (1 - share) (2 u)'. Where the share is 0 or 1 to the last digit, (2 u)' may be too large to multiply.
    const __m512 rest = _mm512_fnmadd_ps(value, g.share, value);
    const __mmask16 inner = _mm512_cmp_ps_mask(rest, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    store(slope + i, m, _mm512_mask3_fmadd_ps(rest, g.slope, g.share, inner));
  });
}

void multiply_numbers(const float* factor, int64_t count, float* x) {
  each_vector(count, [&](int64_t i, __mmask16 m) { store(x + i, m, _mm512_mul_ps(load(x + i, m), load(factor + i, m))); });
}

void add_to_rows(RowShape shape, const float* row, const float* add, float* y) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    const int64_t at = r * shape.width;
    each_vector(shape.width, [&](int64_t i, __mmask16 m) {
      __m512 v = _mm512_add_ps(load(y + at + i, m), load(row + i, m));
      if (add) v = _mm512_add_ps(v, load(add + at + i, m));
      store(y + at + i, m, v);
    });
  }
}

void add_column_sums(RowShape shape, const float* x, float* sums) {
  each_vector(shape.width, [&](int64_t i, __mmask16 m) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t r = 0; r < shape.rows; ++r) sum = _mm512_add_ps(sum, load(x + r * shape.width + i, m));
    store(sums + i, m, _mm512_add_ps(load(sums + i, m), sum));
  });
}

}  // namespace tessera::host

#pragma GCC pop_options

#endif
