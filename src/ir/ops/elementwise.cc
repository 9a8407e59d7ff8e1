// Elementwise ops of one, two and three operands, constants and conversions.

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "ir/numbers.h"
#include "ir/ops/support.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

// ---- shape rules

Types same(const Node& n) { return {n.operands[0].type()}; }

Types same_float(const Node& n) {
  require(n, is_float(n.operands[0].dtype()), "needs a float operand");
  return same(n);
}

Types same_pair(const Node& n) {
  const TensorType &a = n.operands[0].type(), &b = n.operands[1].type();
  require(n, a.dtype == b.dtype, "operands have different dtypes: convert one of them");
  require(n, a.dims == b.dims, "operands have different shapes");
  return {a};
}

Types logical(const Node& n) {
  require(n, !is_float(n.operands[0].dtype()), "needs bool or integer operands");
  return same_pair(n);
}

Types integer_pair(const Node& n) {
  require(n, is_integer(n.operands[0].dtype()), "needs integer operands");
  return same_pair(n);
}

Types bool_result(const Node& n) {
  if (n.operands.size() == 2) same_pair(n);
  return {{DType::kBool, n.operands[0].dims()}};
}

Types to_dtype(const Node& n) { return {{static_cast<DType>(n.attr<int64_t>("_dtype")), n.operands[0].dims()}}; }

Types to_same_size_dtype(const Node& n) {
  Types t = to_dtype(n);
  require(n, element_bytes(t[0].dtype) == element_bytes(n.operands[0].dtype()), "bitcast needs dtypes of one size");
  return t;
}

Types select_types(const Node& n) {
  const TensorType &c = n.operands[0].type(), &a = n.operands[1].type(), &b = n.operands[2].type();
  require(n, c.dtype == DType::kBool, "the condition must be bool");
  require(n, a == b && (c.dims == a.dims || c.dims.empty()), "condition and branches have different types");
  return {a};
}

Types clamp_types(const Node& n) {
  const TensorType &lo = n.operands[0].type(), &x = n.operands[1].type(), &hi = n.operands[2].type();
  require(n, lo.dtype == x.dtype && hi.dtype == x.dtype, "bounds have another dtype than the operand");
  require(n, (lo.dims.empty() || lo.dims == x.dims) && (hi.dims.empty() || hi.dims == x.dims),
          "bounds must be scalars or of the operand's shape");
  return {x};
}

Types parameter_types(const Node& n) { return n.types; }
Types attribute_type(const Node& n) { return {{static_cast<DType>(n.attr<int64_t>("_dtype")), n.attr<Dims>("_dims")}}; }

// ---- gradients: one operand

Values vjp_abs(const VjpArgs& a) { return {a.ct[0] * sign(a.x(0))}; }
Values vjp_negate(const VjpArgs& a) { return {-a.ct[0]}; }
Values vjp_exp(const VjpArgs& a) { return {a.ct[0] * a.y()}; }
Values vjp_expm1(const VjpArgs& a) { return {a.ct[0] * (a.y() + 1.0)}; }
Values vjp_log(const VjpArgs& a) { return {a.ct[0] / a.x(0)}; }
Values vjp_log1p(const VjpArgs& a) { return {a.ct[0] / (a.x(0) + 1.0)}; }
Values vjp_sqrt(const VjpArgs& a) { return {a.ct[0] * 0.5 / a.y()}; }
Values vjp_rsqrt(const VjpArgs& a) { return {a.ct[0] * -0.5 * a.y() / a.x(0)}; }
Values vjp_cbrt(const VjpArgs& a) { return {a.ct[0] / (3.0 * a.y() * a.y())}; }
Values vjp_tanh(const VjpArgs& a) { return {a.ct[0] * (1.0 - a.y() * a.y())}; }
Values vjp_sin(const VjpArgs& a) { return {a.ct[0] * cos(a.x(0))}; }
Values vjp_cos(const VjpArgs& a) { return {-(a.ct[0] * sin(a.x(0)))}; }
Values vjp_erf(const VjpArgs& a) { return {a.ct[0] * (2.0 / std::sqrt(std::numbers::pi)) * exp(-(a.x(0) * a.x(0)))}; }

Values vjp_convert(const VjpArgs& a) {
  if (!is_float(a.x(0).dtype()) || !is_float(a.y().dtype())) return {Value{}};
  return {convert(a.ct[0], a.x(0).dtype())};
}

// ---- gradients: two and three operands

Values vjp_add(const VjpArgs& a) { return {a.ct[0], a.ct[0]}; }
Values vjp_subtract(const VjpArgs& a) { return {a.ct[0], a.wanted[1] ? -a.ct[0] : Value{}}; }

Values vjp_multiply(const VjpArgs& a) {
  return {a.wanted[0] ? a.ct[0] * a.x(1) : Value{}, a.wanted[1] ? a.ct[0] * a.x(0) : Value{}};
}

Values vjp_divide(const VjpArgs& a) {
  const Value first = a.ct[0] / a.x(1);
  return {first, a.wanted[1] ? -(first * a.y()) : Value{}};
}

// A tie gives half to each, as JAX does.
Values vjp_extremum(const VjpArgs& a) {
  const Value x = a.x(0), y = a.x(1), one = ones_like(x), zero = zeros_like(x), half = one * 0.5;
  const Value tie = compare(Compare::kEq, x, y);
  const auto share = [&](Value mine) {
    const Value wins = compare(Compare::kEq, a.y(), mine);
    return a.ct[0] * select(tie, half, select(wins, one, zero));
  };
  return {a.wanted[0] ? share(x) : Value{}, a.wanted[1] ? share(y) : Value{}};
}

// d/da a^b = b a^(b-1), with 0 where b = 0; d/db a^b = log(a) a^b, with 0 where a = 0 (as JAX).
Values vjp_power(const VjpArgs& a) {
  const Value x = a.x(0), e = a.x(1), zero = zeros_like(x), one = ones_like(x);
  Values out(2);
  if (a.wanted[0]) {
    const Value e_is_zero = compare(Compare::kEq, e, zero);
    out[0] = a.ct[0] * select(e_is_zero, zero, e * power(x, select(e_is_zero, one, e - 1.0)));
  }
  if (a.wanted[1]) {
    const Value x_is_zero = compare(Compare::kEq, x, zero);
    out[1] = a.ct[0] * select(x_is_zero, zero, log(select(x_is_zero, one, x)) * a.y());
  }
  return out;
}

// remainder(a, b) = a - b trunc(a / b)
Values vjp_remainder(const VjpArgs& a) {
  const Value q = a.x(0) / a.x(1);
  const Value truncated = sign(q) * floor(abs(q));
  return {a.ct[0], a.wanted[1] ? -(a.ct[0] * truncated) : Value{}};
}

Values vjp_select(const VjpArgs& a) {
  const Value zero = zeros_like(a.ct[0]);
  return {Value{}, a.wanted[1] ? select(a.x(0), a.ct[0], zero) : Value{},
          a.wanted[2] ? select(a.x(0), zero, a.ct[0]) : Value{}};
}

Value sum_to_scalar_if(Value ct, const Dims& dims) { return dims.empty() && ct.rank() > 0 ? sum_all(ct) : ct; }

Values vjp_clamp(const VjpArgs& a) {
  const Value lo = broadcast_to(a.x(0), a.x(1).dims()), hi = broadcast_to(a.x(2), a.x(1).dims());
  const Value below = compare(Compare::kLt, a.x(1), lo), above = compare(Compare::kGt, a.x(1), hi), zero = zeros_like(a.ct[0]);
  Values out(3);
  if (a.wanted[0]) out[0] = sum_to_scalar_if(select(below, a.ct[0], zero), a.x(0).dims());
  if (a.wanted[1]) out[1] = select(logical_or(below, above), zero, a.ct[0]);
  if (a.wanted[2]) out[2] = sum_to_scalar_if(select(above, a.ct[0], zero), a.x(2).dims());
  return out;
}

// ---- constants

template <class T>
Literal literal_of(T value) {
  Literal l;
  l.bytes.resize(sizeof(T));
  std::memcpy(l.bytes.data(), &value, sizeof(T));
  return l;
}

Literal splat(double value, DType dtype) {
  switch (dtype) {
    case DType::kBool: return literal_of<uint8_t>(value != 0);
    case DType::kI8: return literal_of(static_cast<int8_t>(value));
    case DType::kI16: return literal_of(static_cast<int16_t>(value));
    case DType::kI32: return literal_of(static_cast<int32_t>(value));
    case DType::kI64: return literal_of(static_cast<int64_t>(value));
    case DType::kU8: return literal_of(static_cast<uint8_t>(value));
    case DType::kU16: return literal_of(static_cast<uint16_t>(value));
    case DType::kU32: return literal_of(static_cast<uint32_t>(value));
    case DType::kU64: return literal_of(static_cast<uint64_t>(value));
    case DType::kBF16: return literal_of(float_to_bf16(static_cast<float>(value)));
    case DType::kF32: return literal_of(static_cast<float>(value));
    case DType::kF64: return literal_of(value);
    case DType::kF16: break;
  }
  throw usage_error("constants of dtype f16 are not supported", current_scope(), "convert an f32 constant");
}

Value unary(const OpDef& op, Value x) { return make_node(op, {x})->result(); }

// ---- broadcasting

Dims broadcast_dims(const Dims& a, const Dims& b, const char* op) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t da = i + a.size() >= rank ? a[i + a.size() - rank] : 1;
    const int64_t db = i + b.size() >= rank ? b[i + b.size() - rank] : 1;
    if (da != db && da != 1 && db != 1) {
      throw usage_error(fmt::format("`{}`: shapes {} and {} do not broadcast", op, to_string(a), to_string(b)), current_scope(),
                        "sizes must be equal or 1, aligned at the last dimension");
    }
    out[i] = da == 1 ? db : da;
  }
  return out;
}

Value binary(const OpDef& op, Value a, Value b) {
  const Dims dims = broadcast_dims(a.dims(), b.dims(), op.name);
  return make_node(op, {broadcast_to(a, dims), broadcast_to(b, dims)})->result();
}

constexpr const char* kCompareNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};

}  // namespace

// ---- the table

constinit const OpDef kOpParameter("tessera.parameter", parameter_types, no_gradient);
constinit const OpDef kOpConstant("stablehlo.constant", attribute_type, no_gradient);
constinit const OpDef kOpIota("stablehlo.iota", attribute_type, no_gradient);

constinit const OpDef kOpAbs("stablehlo.abs", same, vjp_abs);
constinit const OpDef kOpNegate("stablehlo.negate", same, vjp_negate);
constinit const OpDef kOpSign("stablehlo.sign", same, no_gradient);
constinit const OpDef kOpExp("stablehlo.exponential", same_float, vjp_exp);
constinit const OpDef kOpExpm1("stablehlo.exponential_minus_one", same_float, vjp_expm1);
constinit const OpDef kOpLog("stablehlo.log", same_float, vjp_log);
constinit const OpDef kOpLog1p("stablehlo.log_plus_one", same_float, vjp_log1p);
constinit const OpDef kOpSqrt("stablehlo.sqrt", same_float, vjp_sqrt);
constinit const OpDef kOpRsqrt("stablehlo.rsqrt", same_float, vjp_rsqrt);
constinit const OpDef kOpCbrt("stablehlo.cbrt", same_float, vjp_cbrt);
constinit const OpDef kOpTanh("stablehlo.tanh", same_float, vjp_tanh);
constinit const OpDef kOpSin("stablehlo.sine", same_float, vjp_sin);
constinit const OpDef kOpCos("stablehlo.cosine", same_float, vjp_cos);
constinit const OpDef kOpErf("chlo.erf", same_float, vjp_erf);
constinit const OpDef kOpFloor("stablehlo.floor", same_float, no_gradient);
constinit const OpDef kOpRoundNearestEven("stablehlo.round_nearest_even", same_float, no_gradient);
constinit const OpDef kOpIsFinite("stablehlo.is_finite", bool_result, no_gradient);
constinit const OpDef kOpConvert("stablehlo.convert", to_dtype, vjp_convert);
constinit const OpDef kOpBitcastConvert("stablehlo.bitcast_convert", to_same_size_dtype, no_gradient);

constinit const OpDef kOpAdd("stablehlo.add", same_pair, vjp_add);
constinit const OpDef kOpSubtract("stablehlo.subtract", same_pair, vjp_subtract);
constinit const OpDef kOpMultiply("stablehlo.multiply", same_pair, vjp_multiply);
constinit const OpDef kOpDivide("stablehlo.divide", same_pair, vjp_divide);
constinit const OpDef kOpMaximum("stablehlo.maximum", same_pair, vjp_extremum);
constinit const OpDef kOpMinimum("stablehlo.minimum", same_pair, vjp_extremum);
constinit const OpDef kOpPower("stablehlo.power", same_pair, vjp_power);
constinit const OpDef kOpRemainder("stablehlo.remainder", same_pair, vjp_remainder);
constinit const OpDef kOpAnd("stablehlo.and", logical, no_gradient);
constinit const OpDef kOpOr("stablehlo.or", logical, no_gradient);
constinit const OpDef kOpXor("stablehlo.xor", logical, no_gradient);
constinit const OpDef kOpShiftLeft("stablehlo.shift_left", integer_pair, no_gradient);
constinit const OpDef kOpShiftRightLogical("stablehlo.shift_right_logical", integer_pair, no_gradient);
constinit const OpDef kOpCompare("stablehlo.compare", bool_result, no_gradient);
constinit const OpDef kOpSelect("stablehlo.select", select_types, vjp_select);
constinit const OpDef kOpClamp("stablehlo.clamp", clamp_types, vjp_clamp);

// ---- functions

Value constant(double value, DType dtype, const Dims& dims) {
  if (NumbersScope* numbers = NumbersScope::current(); numbers && dtype == DType::kF32) {
    if (const Value parameter = numbers->parameter(value)) return broadcast_to(parameter, dims);
  }
  return make_node(kOpConstant, {}, {{"value", splat(value, dtype)}, {"_dtype", static_cast<int64_t>(dtype)}, {"_dims", dims}})
      ->result();
}

Value constant_array(const TensorType& type, std::span<const std::byte> bytes) {
  TESSERA_CHECK(static_cast<int64_t>(bytes.size()) == byte_count(type));
  return make_node(kOpConstant, {},
                   {{"value", Literal{{bytes.begin(), bytes.end()}}},
                    {"_dtype", static_cast<int64_t>(type.dtype)},
                    {"_dims", type.dims}})
      ->result();
}

Value constant_f32(const Dims& dims, const std::vector<float>& values) {
  return constant_array({DType::kF32, dims}, std::as_bytes(std::span(values)));
}

Value zeros(const TensorType& type) { return constant(0, type.dtype, type.dims); }
Value zeros_like(Value x) { return zeros(x.type()); }
Value ones_like(Value x) { return constant(1, x.dtype(), x.dims()); }

Value iota(const TensorType& type, int64_t axis) {
  return make_node(kOpIota, {},
                   {{"iota_dimension", normalize_axis(axis, type.rank())},
                    {"_dtype", static_cast<int64_t>(type.dtype)},
                    {"_dims", type.dims}})
      ->result();
}

Value abs(Value x) { return unary(kOpAbs, x); }
Value negate(Value x) { return unary(kOpNegate, x); }
Value sign(Value x) { return unary(kOpSign, x); }
Value exp(Value x) { return unary(kOpExp, x); }
Value expm1(Value x) { return unary(kOpExpm1, x); }
Value log(Value x) { return unary(kOpLog, x); }
Value log1p(Value x) { return unary(kOpLog1p, x); }
Value sqrt(Value x) { return unary(kOpSqrt, x); }
Value rsqrt(Value x) { return unary(kOpRsqrt, x); }
Value cbrt(Value x) { return unary(kOpCbrt, x); }
Value tanh(Value x) { return unary(kOpTanh, x); }
Value sin(Value x) { return unary(kOpSin, x); }
Value cos(Value x) { return unary(kOpCos, x); }
Value erf(Value x) { return unary(kOpErf, x); }
Value floor(Value x) { return unary(kOpFloor, x); }
Value round_nearest_even(Value x) { return unary(kOpRoundNearestEven, x); }
Value is_finite(Value x) { return unary(kOpIsFinite, x); }

Value convert(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return make_node(kOpConvert, {x}, {{"_dtype", static_cast<int64_t>(dtype)}})->result();
}
Value widen(Value x) { return is_float(x.dtype()) && element_bytes(x.dtype()) == 2 ? convert(x, DType::kF32) : x; }
Value bitcast_convert(Value x, DType dtype) {
  return make_node(kOpBitcastConvert, {x}, {{"_dtype", static_cast<int64_t>(dtype)}})->result();
}

Value add(Value a, Value b) { return binary(kOpAdd, a, b); }
Value subtract(Value a, Value b) { return binary(kOpSubtract, a, b); }
Value multiply(Value a, Value b) { return binary(kOpMultiply, a, b); }
Value divide(Value a, Value b) { return binary(kOpDivide, a, b); }
Value maximum(Value a, Value b) { return binary(kOpMaximum, a, b); }
Value minimum(Value a, Value b) { return binary(kOpMinimum, a, b); }
Value power(Value a, Value b) { return binary(kOpPower, a, b); }
Value remainder(Value a, Value b) { return binary(kOpRemainder, a, b); }
Value logical_and(Value a, Value b) { return binary(kOpAnd, a, b); }
Value logical_or(Value a, Value b) { return binary(kOpOr, a, b); }
Value logical_xor(Value a, Value b) { return binary(kOpXor, a, b); }
Value shift_left(Value a, Value b) { return binary(kOpShiftLeft, a, b); }
Value shift_right_logical(Value a, Value b) { return binary(kOpShiftRightLogical, a, b); }

Value compare(Compare direction, Value a, Value b) {
  const Dims dims = broadcast_dims(a.dims(), b.dims(), kOpCompare.name);
  return make_node(kOpCompare, {broadcast_to(a, dims), broadcast_to(b, dims)},
                   {{"comparison_direction", EnumAttr{"comparison_direction", kCompareNames[static_cast<size_t>(direction)]}}})
      ->result();
}

Value select(Value condition, Value on_true, Value on_false) {
  const Dims dims =
      broadcast_dims(condition.dims(), broadcast_dims(on_true.dims(), on_false.dims(), kOpSelect.name), kOpSelect.name);
  return make_node(kOpSelect, {broadcast_to(condition, dims), broadcast_to(on_true, dims), broadcast_to(on_false, dims)})
      ->result();
}

Value clamp(Value low, Value x, Value high) { return make_node(kOpClamp, {low, x, high})->result(); }

Value operator+(Value a, double b) { return a + constant(b, a.dtype()); }
Value operator+(double a, Value b) { return constant(a, b.dtype()) + b; }
Value operator-(Value a, double b) { return a - constant(b, a.dtype()); }
Value operator-(double a, Value b) { return constant(a, b.dtype()) - b; }
Value operator*(Value a, double b) { return a * constant(b, a.dtype()); }
Value operator*(double a, Value b) { return constant(a, b.dtype()) * b; }
Value operator/(Value a, double b) { return a / constant(b, a.dtype()); }
Value operator/(double a, Value b) { return constant(a, b.dtype()) / b; }

}  // namespace tessera::ir
