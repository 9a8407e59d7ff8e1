#include "ir/functions.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "ir/composite.h"
#include "ir/composites.h"
#include "ir/ops/support.h"

namespace tessera::ir {

Value softmax(Value x, int64_t axis) {
  axis = normalize_axis(axis, x.rank());
  const Value shifted = exp(x - stop_gradient(reduce_max(x, {axis}, true)));
  const Value y = shifted / sum(shifted, {axis}, true);
  return custom_gradient({x}, {y}, [axis](const Values&, const Values& out, const Values& ct) {
    const Value weighted = ct[0] * out[0];
    return Values{weighted - out[0] * sum(weighted, {axis}, true)};
  })[0];
}

Value log_softmax(Value x, int64_t axis) {
  axis = normalize_axis(axis, x.rank());
  const Value shifted = x - stop_gradient(reduce_max(x, {axis}, true));  // first, so that large inputs keep their digits
  return shifted - log(sum(exp(shifted), {axis}, true));
}

Value standardize(Value x, double epsilon) {
  const Value wide = convert(x, DType::kF32);
  const Value centred = wide - mean(wide, {-1}, true);
  const Value inverse = rsqrt(mean(square(centred), {-1}, true) + epsilon);
  return convert(centred * inverse, x.dtype());
}

Value sum_over_rows(Value x) {
  Dims dims = range(x.rank());
  dims.pop_back();
  return sum(x, dims);
}

Value relu(Value x) {
  const auto gradient = [](const Values&, const Values& y, const Values& ct) -> Values {
    return {select(compare(Compare::kGt, y[0], constant(0, y[0].dtype())), ct[0], zeros_like(ct[0]))};
  };
  return custom_gradient({x}, {maximum(x, constant(0, x.dtype()))}, gradient)[0];
}

namespace {

// 16-bit floats are computed in f32 and rounded once, as in torch. The backward pass computes the slope from x, and keeps nothing
// else for it.
Value elementwise(Value x, Value (*function)(Value), Value (*slope)(Value)) {
  const Value y = convert(function(widen(x)), x.dtype());
  return custom_gradient({x}, {y}, [slope](const Values& in, const Values&, const Values& ct) -> Values {
    return {convert(widen(ct[0]) * slope(widen(in[0])), in[0].dtype())};
  })[0];
}

Value twice_normal_cdf(Value x) { return 1.0 + erf(x * (1.0 / std::numbers::sqrt2)); }
Value exact(Value x) { return 0.5 * x * twice_normal_cdf(x); }
Value exact_slope(Value x) {
  const Value density = (std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(-0.5 * square(x));
  return 0.5 * twice_normal_cdf(x) + x * density;
}

constexpr double kCubic = 0.044715;
constexpr double kInner = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
Value tanh_of_cubic(Value x) { return tanh(kInner * (x + kCubic * x * x * x)); }
Value approximate(Value x) { return 0.5 * x * (1.0 + tanh_of_cubic(x)); }
Value approximate_slope(Value x) {
  const Value t = tanh_of_cubic(x), inner_slope = kInner * (1.0 + 3 * kCubic * square(x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - square(t)) * inner_slope;
}

}  // namespace

Value gelu_exact(Value x) { return elementwise(x, exact, exact_slope); }
Value gelu_tanh(Value x) { return elementwise(x, approximate, approximate_slope); }

// max(x, 0) is written so that the slope at 0 is that of the function, 1/2, and not what a comparison makes of it.
Value softplus(Value x) { return 0.5 * (x + abs(x)) + log1p(exp(-abs(x))); }
Value square(Value x) { return x * x; }

Values split_heads(Value x, int64_t tokens, int64_t parts, int64_t heads) {
  const int64_t size = x.dim(1) / parts, width = element_count(x.dims()) / (x.dim(0) * parts * heads);
  Values split;
  for (int64_t i = 0; i < parts; ++i) {
    split.push_back(reshape(slice_axis(x, 1, i * size, (i + 1) * size), {x.dim(0) / tokens, tokens, heads, width}));
  }
  return split;
}

Value merge_heads(Value x) { return reshape(x, {x.dim(0) * x.dim(1), x.dim(2) * x.dim(3)}); }

Value pack(const Values& scalars) {
  Values rows;
  for (const Value scalar : scalars) rows.push_back(reshape(scalar, {1}));
  return concatenate(rows, 0);
}

Value one_hot(Value indices, int64_t classes, DType dtype) {
  Dims dims = indices.dims();
  dims.push_back(classes);
  const Value wanted = broadcast_in_dim(indices, dims, range(indices.rank()));
  return convert(compare(Compare::kEq, wanted, iota({indices.dtype(), dims}, indices.rank())), dtype);
}

namespace {

Value clamp_index(Value indices, int64_t size) {
  return clamp(constant(0, indices.dtype()), indices, constant(static_cast<double>(size - 1), indices.dtype()));
}

}  // namespace

Value take(Value table, Value indices) {
  GatherDims d;
  d.offset_dims = range(table.rank() - 1, indices.rank());
  d.collapsed_slice_dims = {0};
  d.start_index_map = {0};
  d.index_vector_dim = indices.rank();
  Dims sizes = table.dims();
  sizes[0] = 1;
  return gather(table, clamp_index(indices, table.dim(0)), d, sizes);
}

Value argmax(Value x, int64_t axis) {
  axis = normalize_axis(axis, x.rank());
  const Value fixed = stop_gradient(x);
  const Value position = iota({DType::kI32, x.dims()}, axis);
  const Value beyond = constant(static_cast<double>(x.dim(axis)), DType::kI32);
  const Value hit = compare(Compare::kEq, fixed, reduce_max(fixed, {axis}, true));
  return reduce_min(select(hit, position, beyond), {axis});
}

std::pair<Value, Value> top_k(Value x, int64_t k) {
  const int64_t axis = x.rank() - 1;
  const Values sorted = sort({x, iota({DType::kI32, x.dims()}, axis)}, axis, true);
  return {slice_axis(sorted[0], axis, 0, k), slice_axis(sorted[1], axis, 0, k)};
}

Value global_norm(const Values& xs, const std::vector<mesh::PartitionSpec>& specs) {
  const auto in_ops = [](const Values& arrays) -> Values {
    Value total = constant(0);
    for (const Value x : arrays) total = total + sum_all(square(x));
    return {total};
  };
  Values wide;
  for (const Value x : xs) wide.push_back(convert(x, DType::kF32));
  return sqrt(composite_node({"sum_of_squares", SumOfSquares{specs}, in_ops}, wide)[0]);
}

Value max_pool2d(Value x, int64_t window, int64_t stride, int64_t padding) {
  WindowOptions w;
  w.dimensions = {1, window, window, 1};
  w.strides = {1, stride, stride, 1};
  w.padding = {{0, 0}, {padding, padding}, {padding, padding}, {0, 0}};
  return reduce_window(Reduce::kMax, x, w);
}

Value max_pool2d_gradient(Value x, Value cotangent, int64_t window, int64_t stride, int64_t padding) {
  TESSERA_CHECK(window <= kMaxPoolWindow, "places of a window of {0} x {0} in a byte", window);
  const int64_t h = x.dim(1), w = x.dim(2), rows = cotangent.dim(1), columns = cotangent.dim(2);
  const Value lowest = constant(-std::numeric_limits<double>::infinity(), x.dtype());
  const Value padded = pad(x, lowest, {0, padding, padding, 0}, {0, padding, padding, 0});
  // What all windows see at one of their places.
  const auto seen = [&](int64_t r, int64_t c) {
    return slice(padded, {0, r, c, 0}, {x.dim(0), r + stride * (rows - 1) + 1, c + stride * (columns - 1) + 1, x.dim(3)},
                 {1, stride, stride, 1});
  };
  const auto number = [&](int64_t place) { return constant(static_cast<double>(place), DType::kU8, cotangent.dims()); };
  Value largest = seen(0, 0), at = number(0);
  for (int64_t place = 1; place < window * window; ++place) {
    const Value next = seen(place / window, place % window), larger = compare(Compare::kGt, next, largest);
    largest = select(larger, next, largest);
    at = select(larger, number(place), at);
  }
  at = optimization_barrier({at})[0];  // or XLA would look for the largest again for every number of x

  const Value wide = widen(cotangent), zero = zeros_like(wide);
  Value sum;
  for (int64_t place = 0; place < window * window; ++place) {
    const int64_t top = place / window - padding, left = place % window - padding;
    const Value taken = select(compare(Compare::kEq, at, number(place)), wide, zero);
    const Value back =
        pad(taken, constant(0, wide.dtype()), {0, top, left, 0},
            {0, h - top - stride * (rows - 1) - 1, w - left - stride * (columns - 1) - 1, 0}, {0, stride - 1, stride - 1, 0});
    sum = sum ? sum + back : back;
  }
  // Or XLA would take the sum apart again in sums over it, as those of a batch norm's gradient, and in f32.
  return optimization_barrier({convert(sum, x.dtype())})[0];
}

}  // namespace tessera::ir
