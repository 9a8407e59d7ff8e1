// gather and scatter: each is the other's gradient.

#include <algorithm>

#include "ir/ops/support.h"

namespace tessera::ir {
namespace {

using Types = std::vector<TensorType>;

// Dimensions of `indices` without the one that holds the index vectors.
Dims index_batch(const TensorType& indices, int64_t vector_dim) {
  Dims out = indices.dims;
  if (vector_dim < indices.rank()) out.erase(out.begin() + vector_dim);
  return out;
}

Types gather_types(const Node& n) {
  const TensorType &x = n.operands[0].type(), &i = n.operands[1].type();
  const auto& d = n.attr<GatherDims>("dimension_numbers");
  const Dims& sizes = n.attr<Dims>("slice_sizes");
  require(n, is_integer(i.dtype), "indices must be integers");
  require(n, sizes.size() == x.dims.size(), "needs one slice size for each operand dimension");
  Dims window;
  for (int64_t k = 0; k < x.rank(); ++k) {
    require(n, sizes[idx(k)] >= 0 && sizes[idx(k)] <= x.dims[idx(k)], "slice sizes do not fit");
    if (!contains(d.collapsed_slice_dims, k) && !contains(d.operand_batching_dims, k)) window.push_back(sizes[idx(k)]);
  }
  const Dims batch = index_batch(i, d.index_vector_dim);
  require(n, window.size() == d.offset_dims.size(), "offset_dims and slice sizes disagree");
  Dims out;
  size_t b = 0, w = 0;
  for (int64_t k = 0; k < static_cast<int64_t>(batch.size() + window.size()); ++k)
    out.push_back(contains(d.offset_dims, k) ? window[w++] : batch.at(b++));
  return {{x.dtype, out}};
}

ScatterDims transpose_dims(const GatherDims& d) {
  return {d.offset_dims,     d.collapsed_slice_dims, d.operand_batching_dims, d.start_indices_batching_dims,
          d.start_index_map, d.index_vector_dim};
}

GatherDims transpose_dims(const ScatterDims& d) {
  return {d.update_window_dims,           d.inserted_window_dims, d.input_batching_dims, d.scatter_indices_batching_dims,
          d.scatter_dims_to_operand_dims, d.index_vector_dim};
}

Values vjp_gather(const VjpArgs& a) {
  return {scatter(zeros_like(a.x(0)), a.x(1), a.ct[0], transpose_dims(a.node.attr<GatherDims>("dimension_numbers"))), Value{}};
}

// The sizes of the windows that a scatter writes, over the operand's dimensions.
Dims window_sizes(const TensorType& operand, const TensorType& updates, const ScatterDims& d) {
  Dims sizes;
  size_t w = 0;
  for (int64_t k = 0; k < operand.rank(); ++k) {
    const bool single = contains(d.inserted_window_dims, k) || contains(d.input_batching_dims, k);
    sizes.push_back(single ? 1 : updates.dims.at(idx(d.update_window_dims.at(w++))));
  }
  return sizes;
}

Types scatter_types(const Node& n) {
  const TensorType &x = n.operands[0].type(), &i = n.operands[1].type(), &u = n.operands[2].type();
  const auto& d = n.attr<ScatterDims>("scatter_dimension_numbers");
  require(n, is_integer(i.dtype), "indices must be integers");
  require(n, x.dtype == u.dtype, "updates have another dtype than the operand");
  const Dims batch = index_batch(i, d.index_vector_dim);
  require(n, u.dims.size() == batch.size() + d.update_window_dims.size(), "the updates' rank does not fit");
  const Dims sizes = window_sizes(x, u, d);
  for (size_t k = 0; k < sizes.size(); ++k) require(n, sizes[k] <= x.dims[k], "an update window is larger than the operand");
  size_t b = 0;
  for (int64_t k = 0; k < u.rank(); ++k) {
    if (!contains(d.update_window_dims, k)) require(n, u.dims[idx(k)] == batch.at(b++), "updates and indices disagree");
  }
  return {x};
}

Values vjp_scatter(const VjpArgs& a) {
  const auto& d = a.node.attr<ScatterDims>("scatter_dimension_numbers");
  const bool replaces = a.node.attr<int64_t>("_kind") == static_cast<int64_t>(ScatterKind::kReplace);
  const bool unique = a.node.attr<bool>("unique_indices");
  require(a.node, !replaces || unique, "the gradient of a replacing scatter needs unique_indices");
  Values out(3);
  if (a.wanted[0]) out[0] = replaces ? scatter(a.ct[0], a.x(1), zeros_like(a.x(2)), d, ScatterKind::kReplace, unique) : a.ct[0];
  if (a.wanted[2]) out[2] = gather(a.ct[0], a.x(1), transpose_dims(d), window_sizes(a.x(0).type(), a.x(2).type(), d));
  return out;
}

}  // namespace

constinit const OpDef kOpGather("stablehlo.gather", gather_types, vjp_gather);
constinit const OpDef kOpScatter("stablehlo.scatter", scatter_types, vjp_scatter);

Value gather(Value operand, Value indices, const GatherDims& dims, const Dims& slice_sizes, bool indices_are_sorted) {
  return make_node(kOpGather, {operand, indices},
                   {{"dimension_numbers", dims}, {"slice_sizes", slice_sizes}, {"indices_are_sorted", indices_are_sorted}})
      ->result();
}

Value scatter(Value operand, Value indices, Value updates, const ScatterDims& dims, ScatterKind kind, bool unique_indices) {
  const TensorType scalar{operand.dtype(), {}};
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(scalar_region(&current_graph(), {scalar, scalar},
                                  [&](const Values& p) { return Values{kind == ScatterKind::kAdd ? p[0] + p[1] : p[1]}; }));
  return make_node(kOpScatter, {operand, indices, updates},
                   {{"scatter_dimension_numbers", dims},
                    {"indices_are_sorted", false},
                    {"unique_indices", unique_indices},
                    {"_kind", static_cast<int64_t>(kind)}},
                   std::move(regions))
      ->result();
}

}  // namespace tessera::ir
