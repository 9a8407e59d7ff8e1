#pragma once
// What the op entries share: attribute spelling, operand checks, axis handling.

#include <fmt/core.h>

#include "base/error.h"
#include "ir/op_entries.h"
#include "ir/ops.h"

namespace tessera::ir {

// "array<i64: …>" attributes are kept as Dims.
inline int64_t normalize_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    throw usage_error(fmt::format("axis {} is outside an array of rank {}", axis, rank), current_scope());
  }
  return axis < 0 ? axis + rank : axis;
}

inline Dims normalize_axes(const Dims& axes, int64_t rank) {
  Dims out;
  for (const int64_t a : axes) out.push_back(normalize_axis(a, rank));
  return out;
}

inline bool contains(const Dims& dims, int64_t value) {
  for (const int64_t d : dims) {
    if (d == value) return true;
  }
  return false;
}

// 0, 1, …, n - 1.
inline Dims range(int64_t n, int64_t start = 0) {
  Dims d;
  for (int64_t i = 0; i < n; ++i) d.push_back(start + i);
  return d;
}

inline size_t idx(int64_t i) { return static_cast<size_t>(i); }

// The extent of `size` elements that lie `dilation` apart.
inline int64_t dilated(int64_t size, int64_t dilation) { return size == 0 ? 0 : (size - 1) * dilation + 1; }

// Fails the node unless the condition holds.
inline void require(const Node& node, bool condition, const std::string& message) {
  if (!condition) fail_op(node, message);
}

// A region of two (or 2n) scalar parameters and one result, for reduce, sort, scatter and select_and_scatter.
std::unique_ptr<Graph> scalar_region(Graph* parent, const std::vector<TensorType>& parameters,
                                     const std::function<Values(const Values&)>& body);

}  // namespace tessera::ir
