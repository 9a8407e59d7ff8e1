#pragma once
// Computations of each device on its own rows (Shardy's manual computations), which XLA's partitioner leaves as they are.

#include <vector>

#include "ir/graph.h"
#include "ir/ops.h"
#include "mesh/mesh.h"

namespace tessera::ir {

// `body` on every device: of operands with `rows` it gets the device's part along the first dimension, split over the batch's
// axes (mesh::batch_parts of them, which divides it), of others the whole. Its results are the device's parts, along the first
// dimension, of what is given. The body uses nothing but its arguments. It has no gradient of its own (custom_gradient).
Values shard_map(const mesh::Mesh& mesh, const Values& operands, const std::vector<bool>& rows, const LoopFn& body);

// In a lowered graph and its regions: convolutions in groups of several features, which XLA's partitioner would run on every
// device for the whole batch. Their batch is to divide into mesh::batch_parts(mesh).
void split_grouped_convolutions(Graph& lowered, const mesh::Mesh& mesh);

}  // namespace tessera::ir
