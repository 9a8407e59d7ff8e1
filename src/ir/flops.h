#pragma once
// Arithmetic of a graph.

#include "ir/graph.h"

namespace tessera::ir {

// Of products and convolutions, two for each multiply-add; bodies of scans as often as they run. Branches and other loops count
// once.
double product_flops(const Graph& graph);

}  // namespace tessera::ir
