#include "nn/sharding.h"

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

}  // namespace tessera::nn
