#pragma once

#include <memory>

#include "ir/graph.h"
#include "ir/program/target.h"

namespace tessera::ir {

// A copy in which composites that the target does not take, all of them where there is none, are written as their
// decompositions. `graph` has no parent.
std::unique_ptr<Graph> expand_composites(const Graph& graph, const Target* target);

}  // namespace tessera::ir
