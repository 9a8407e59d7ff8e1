#include "ir/random.h"

#include <array>
#include <cmath>
#include <numbers>

#include "base/rng.h"
#include "ir/ops/support.h"

namespace tessera::ir {
namespace {

Value u32(uint64_t value) { return constant(static_cast<double>(value & 0xffffffffu), DType::kU32); }

Value rotate(Value x, int bits) {
  return logical_or(shift_left(x, u32(static_cast<uint64_t>(bits))),
                    shift_right_logical(x, u32(static_cast<uint64_t>(32 - bits))));
}

// Threefry-2x32 with 20 rounds on the counter words (x0, x1).
std::pair<Value, Value> threefry(Value key, Value x0, Value x1) {
  static constexpr std::array<std::array<int, 4>, 2> kRotations{{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const Value k0 = reshape(slice_axis(key, 0, 0, 1), {}), k1 = reshape(slice_axis(key, 0, 1, 2), {});
  const std::array<Value, 3> ks{k0, k1, logical_xor(logical_xor(k0, k1), u32(0x1BD11BDA))};
  x0 = x0 + ks[0];
  x1 = x1 + ks[1];
  for (uint64_t group = 0; group < 5; ++group) {
    for (const int r : kRotations[group % 2]) {
      x0 = x0 + x1;
      x1 = logical_xor(rotate(x1, r), x0);
    }
    x0 = x0 + ks[(group + 1) % 3];
    x1 = x1 + ks[(group + 2) % 3] + u32(group + 1);
  }
  return {x0, x1};
}

Value pack(Value a, Value b) { return concatenate({reshape(a, {1}), reshape(b, {1})}, 0); }

// The row-major position of every element, modulo 2^32, and the part above it.
std::pair<Value, Value> positions(const Dims& dims, Value first_row) {
  const auto along = [&](int64_t axis) {
    const Value own = iota({DType::kU32, dims}, axis);
    return axis == 0 && first_row ? own + first_row : own;
  };
  Value low = zeros({DType::kU32, dims});
  int64_t stride = 1;
  for (int64_t axis = static_cast<int64_t>(dims.size()) - 1; axis >= 0; --axis) {
    low = low + along(axis) * u32(static_cast<uint64_t>(stride));
    stride *= dims[idx(axis)];
  }
  // Arrays of 2^32 elements and more: the leading axis also goes into the high word, so that positions stay distinct.
  const Value high = stride > int64_t{0xffffffff} ? along(0) : zeros({DType::kU32, dims});
  return {low, high};
}

}  // namespace

Value make_key(uint64_t seed) {
  const std::array<uint32_t, 2> words{static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed)};
  return constant_array({DType::kU32, {2}}, std::as_bytes(std::span(words)));
}

Value fold_in(Value key, uint64_t data) {
  const auto [a, b] = threefry(key, u32(data >> 32), u32(data));
  return pack(a, b);
}

Value fold_in(Value key, std::string_view name) { return fold_in(key, hash_name(name)); }

Value fold_in(Value key, Value counter) {
  // The high word marks device counters, so that they do not meet the small numbers folded in while tracing.
  const auto [a, b] = threefry(key, u32(0x80000000u), convert(counter, DType::kU32));
  return pack(a, b);
}

Value random_bits(Value key, const Dims& dims, Value first_row) {
  const auto [low, high] = positions(dims, first_row);
  return threefry(key, high, low).first;
}

Value random_uniform(Value key, const Dims& dims, double low, double high, Value first_row) {
  const Value bits = shift_right_logical(random_bits(key, dims, first_row), u32(8));
  const Value unit = convert(bits, DType::kF32) * std::ldexp(1.0, -24);
  return low == 0 && high == 1 ? unit : unit * (high - low) + low;
}

Value erf_inv(Value x) {
  // M. Giles, "Approximating the erfinv function", GPU Computing Gems 2, 2010 (single precision).
  static constexpr std::array<double, 9> kCentral{2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                                  -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                                  -0.00417768164,  0.246640727,    1.50140941};
  static constexpr std::array<double, 9> kTail{-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                               -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  const Value w = -log((1.0 - x) * (1.0 + x));
  const auto polynomial = [](const std::array<double, 9>& c, Value t) {
    Value p = constant(c[0], t.dtype(), t.dims());
    for (size_t i = 1; i < c.size(); ++i) p = c[i] + p * t;
    return p;
  };
  const Value is_central = compare(Compare::kLt, w, constant(5));
  return x * select(is_central, polynomial(kCentral, w - 2.5), polynomial(kTail, sqrt(maximum(w, constant(5))) - 3.0));
}

Value random_normal(Value key, const Dims& dims, Value first_row) {
  // The smallest magnitude of 2u - 1 below one is kept, so that erf_inv stays finite.
  const double edge = 1.0 - std::ldexp(1.0, -24);
  const Value u = random_uniform(key, dims, -1, 1, first_row);
  return std::numbers::sqrt2 * erf_inv(clamp(constant(-edge), u, constant(edge)));
}

Value random_truncated_normal(Value key, const Dims& dims, double low, double high) {
  const double a = std::erf(low / std::numbers::sqrt2), b = std::erf(high / std::numbers::sqrt2);
  const Value x = std::numbers::sqrt2 * erf_inv(random_uniform(key, dims, a, b));
  return clamp(constant(low), x, constant(high));
}

Value bernoulli(Value key, double probability, const Dims& dims, Value first_row) {
  return compare(Compare::kLt, random_uniform(key, dims, 0, 1, first_row), constant(probability));
}

}  // namespace tessera::ir
