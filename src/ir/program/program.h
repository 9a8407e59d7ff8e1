#pragma once
// From a traced graph to the text of a program: the passes, in their order.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/program/emit.h"
#include "ir/program/target.h"
#include "mesh/mesh.h"

namespace tessera::ir {

// What is printed of `graph`, which has no parent: lowered, with the target's kernels where there is one, split over the mesh
// where the partitioner has to be told, and verified.
std::unique_ptr<Graph> finish(const Graph& graph, const std::optional<mesh::Mesh>& mesh = {}, const Target* target = nullptr);

// Of a traced graph: finished and printed. Checks each alias's types and layouts; throws InternalError where they differ.
std::string program_text(const Graph& graph, const EmitOptions& options = {}, const Target* target = nullptr);

// The same for one device, as two programs, where the first `fixed` parameters stay the same from call to call
// (ir/passes/split_fixed.h).
struct SplitText {
  std::string prepare;  // called "prepare_<name>"; empty: nothing is prepared
  std::string run;
  std::vector<size_t> kept;
  std::vector<int64_t> donated;  // arguments of `run`
};
SplitText split_program_text(const Graph& graph, const EmitOptions& options, size_t fixed, const Target& target);

}  // namespace tessera::ir
