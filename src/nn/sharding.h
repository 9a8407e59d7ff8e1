#pragma once
// How the values of a model lie on a mesh while it is traced. Layers say where rows of a batch, heads and hidden features lie;
// where a parameter lies at rest is a rule's choice, and it is gathered for use, block by block.

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/ops.h"
#include "mesh/partition.h"

namespace tessera::nn {

class Scope;

struct Sharding {
  mesh::Mesh mesh;
  std::map<std::string, mesh::PartitionSpec> params;  // at rest, by name; of whole arrays, the stacked axis included
  // False: stacked parameters are gathered once a step, before the scan, and stay so until its end.
  bool per_block = true;
  bool reduce_f32 = false;  // gradients of kernels are summed over devices in f32 where products are in bf16
};

// Where a dimension of an activation lies.
enum class Along { kNothing, kBatch, kTensor };

// `x` laid out so, forward and backward; as it is without a mesh. Dimensions beyond the list are whole.
ir::Value shard(const Scope& scope, ir::Value x, std::initializer_list<Along> dims);

// A product of activations and a kernel, whose gradient is summed as the sharding says.
ir::Value sum_gradient(const Scope& scope, ir::Value product);

// A parameter at rest as `spec` (of its slice, in a scan) gathered over every axis but `tensor`; its gradient goes back to
// `spec`.
ir::Value gather_param(ir::Value value, const mesh::PartitionSpec& spec);
// The same where arrays are gathered fast along their first dimension alone: of one that is split along another, the parts are
// gathered one after the other, and then put side by side in rows.
ir::Value gather_param_by_parts(ir::Value value, const mesh::PartitionSpec& spec, const mesh::Mesh& mesh);

}  // namespace tessera::nn
