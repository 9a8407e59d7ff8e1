#pragma once
// How many arithmetic operations a graph takes.

#include "ir/graph.h"

namespace tessera::ir {

// Two operations for each multiply-add of products and convolutions. The body of a scan counts as often as it runs, that of any
// other loop once.
double product_flops(const Graph& graph);

}  // namespace tessera::ir
