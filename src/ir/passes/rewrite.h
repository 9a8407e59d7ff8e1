#pragma once
// The way of a pass: a graph is copied, and some nodes become others on the way.

#include <functional>
#include <memory>
#include <optional>

#include "ir/graph.h"

namespace tessera::ir {

// What a node's results become, made in the current graph from `operands`, its operands in that graph; nothing: the node is
// copied, and its regions are rewritten too.
using Replace = std::function<std::optional<Values>(const Node& node, const Values& operands)>;

// A copy of what the results of `graph` need, with nodes replaced, in its regions too. `graph` has no parent.
std::unique_ptr<Graph> rewrite(const Graph& graph, const Replace& replace);

}  // namespace tessera::ir
