#pragma once
// Computations of each device on its own rows (Shardy's manual computations), which XLA's partitioner leaves as they are.

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "ir/ops.h"
#include "mesh/mesh.h"
#include "mesh/partition.h"

namespace tessera::ir {

// In place of a dimension: the array is whole on every device.
inline constexpr int64_t kWhole = -1;

// `body` on every device. Of each operand it gets the device's part along the dimension that `split` names, over the batch's
// axes (mesh::batch_parts of them, which divides it), or the whole (kWhole). Its results are the device's parts, along
// `result_split`, of what is given. The body uses nothing but its arguments. It has no gradient of its own.
Values shard_map(const mesh::Mesh& mesh, const Values& operands, const std::vector<int64_t>& split, const LoopFn& body,
                 int64_t result_split = 0);
// The same for operands that lie on the mesh as `specs` say, one each.
Values shard_map_from(const mesh::Mesh& mesh, const Values& operands, const std::vector<mesh::PartitionSpec>& specs,
                      const LoopFn& body, int64_t result_split = 0);
// The same for operands and results that lie on the mesh as `specs` say, one each: the results as the operands.
Values shard_map_at(const mesh::Mesh& mesh, const Values& operands, const std::vector<mesh::PartitionSpec>& specs,
                    const LoopFn& body);

}  // namespace tessera::ir
