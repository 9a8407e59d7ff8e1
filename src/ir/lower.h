#pragma once
// Lowering: `tessera.*` nodes -> StableHLO nodes.

#include "ir/graph.h"

namespace tessera::ir {

// As inline_graph, with every `tessera.*` node (in regions too) replaced by what its entry lowers it to.
Values lower_inline(const Graph& body, const Values& arguments);

}  // namespace tessera::ir
