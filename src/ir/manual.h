#pragma once
// Parts of a lowered graph -> computations of each device on its own rows (Shardy's manual computations).

#include "ir/graph.h"
#include "mesh/mesh.h"

namespace tessera::ir {

// In a lowered graph and its regions: convolutions in groups of several features, which XLA's partitioner would run on every
// device for the whole batch. Their batch is to divide into mesh::batch_parts(mesh).
void split_grouped_convolutions(Graph& lowered, const mesh::Mesh& mesh);

}  // namespace tessera::ir
