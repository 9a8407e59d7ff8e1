#pragma once

#include "ir/graph.h"

namespace tessera::ir {

// Checks every node against its shape rule, order, ownership and regions; throws InternalError otherwise.
void verify(const Graph& graph);

}  // namespace tessera::ir
