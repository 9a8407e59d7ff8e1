#pragma once

#include <memory>

#include "ir/graph.h"
#include "mesh/mesh.h"

namespace tessera::ir {

// Convolutions in groups of several features, which XLA's partitioner would run on every device for the whole batch, become
// computations of each device on its own rows (ir/manual.h). Their batch is to divide into mesh::batch_parts(mesh).
std::unique_ptr<Graph> split_grouped_convolutions(const Graph& graph, const mesh::Mesh& mesh);

}  // namespace tessera::ir
