#include "nn/sharding.h"

#include <algorithm>

#include "ir/ops.h"
#include "nn/scope.h"

namespace tessera::nn {

ir::Value shard(const Scope& scope, ir::Value x, std::initializer_list<Along> dims) {
  const Sharding* sharding = scope.sharding();
  if (!sharding) return x;
  mesh::PartitionSpec spec;
  for (const Along along : dims) {
    mesh::AxisNames axes;
    if (along == Along::kBatch) axes = mesh::batch_axes(sharding->mesh);
    if (along == Along::kTensor && sharding->mesh.size("tensor") > 1) axes = {"tensor"};
    // What does not divide stays whole.
    if (x.dim(static_cast<int64_t>(spec.dims.size())) % mesh::parts(sharding->mesh, axes) != 0) axes.clear();
    spec.dims.push_back(axes);
  }
  return ir::reshard(x, spec, spec);
}

ir::Value sum_gradient(const Scope& scope, ir::Value product) {
  const bool wide = scope.sharding() && scope.sharding()->reduce_f32 && product.dtype() != DType::kF32;
  return wide ? ir::widen_rhs_gradient(product) : product;
}

ir::Value gather_param(ir::Value value, const mesh::PartitionSpec& spec) {
  const mesh::PartitionSpec whole = mesh::without_axes(spec, {"replica", "fsdp"});
  return ir::reshard(value, whole, spec);
}

namespace {

// [a, parts * b, c] -> [parts, a, b, c], and back.
ir::Value parts_first(ir::Value x, size_t dim, int64_t parts) {
  Dims apart = x.dims(), order{static_cast<int64_t>(dim)};
  apart[dim] /= parts;
  apart.insert(apart.begin() + static_cast<ptrdiff_t>(dim), parts);
  for (size_t i = 0; i < apart.size(); ++i) {
    if (i != dim) order.push_back(static_cast<int64_t>(i));
  }
  return ir::transpose(ir::reshape(x, apart), order);
}

ir::Value side_by_side(ir::Value x, size_t dim, const Dims& whole) {
  Dims order;
  for (int64_t i = 1; i < x.rank(); ++i) order.push_back(i);
  order.insert(order.begin() + static_cast<ptrdiff_t>(dim), 0);
  return ir::reshape(ir::transpose(x, order), whole);
}

}  // namespace

ir::Value gather_param_by_parts(ir::Value value, const mesh::PartitionSpec& spec, const mesh::Mesh& mesh) {
  const auto is_split = [](const mesh::AxisNames& axes) { return !axes.empty(); };
  const auto split = std::ranges::find_if(spec.dims, is_split);
  const bool one = std::ranges::count_if(spec.dims, is_split) == 1 && !spec.uses("tensor");
  if (!one || split == spec.dims.begin()) {
    // Said twice, so that the partitioner gathers this array and not the stack's slice of one more dimension.
    return gather_param(ir::reshard(value, spec, spec), spec);
  }
  const auto dim = static_cast<size_t>(split - spec.dims.begin());
  const ir::Value parts = parts_first(value, dim, mesh::parts(mesh, *split));
  return side_by_side(ir::reshard(parts, {}, {{*split}}), dim, value.dims());
}

}  // namespace tessera::nn
