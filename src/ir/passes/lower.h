#pragma once
// Lowering: `tessera.*` nodes -> StableHLO nodes.

#include <memory>

#include "ir/graph.h"
#include "ir/program/target.h"

namespace tessera::ir {

// A copy in which every `tessera.*` op is written in StableHLO, as the target prefers it where there is one. `graph` has no
// parent.
std::unique_ptr<Graph> lower(const Graph& graph, const Target* target = nullptr);

// As inline_graph, with every `tessera.*` node (in regions too) replaced by what its entry lowers it to.
Values lower_inline(const Graph& body, const Values& arguments);

}  // namespace tessera::ir
