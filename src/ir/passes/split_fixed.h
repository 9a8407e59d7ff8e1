#pragma once
// A program whose first arguments stay the same from call to call, as weights do while a model is used, in two: what it makes of
// them alone, once, and the rest.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "ir/graph.h"

namespace tessera::ir {

// Whether a value of `graph` depends on its first `count` parameters, and else on constants alone. Good while the graph is.
std::function<bool(Value)> fixed_values(const Graph& graph, size_t count);

struct SplitGraph {
  std::unique_ptr<Graph> prepare;  // (the first parameters) -> what `run` takes of them; null: nothing
  std::unique_ptr<Graph> run;  // (those of `kept`, the results of prepare, the other parameters) -> the results of the graph
  std::vector<size_t> kept;    // places of the first parameters that `run` reads as they are
};

// Of a finished graph, which has no parent. Reshapes and broadcasts of what is fixed stay in `run`: the compiler joins them with
// what reads them.
SplitGraph split_fixed(std::unique_ptr<Graph> graph, size_t count);

}  // namespace tessera::ir
