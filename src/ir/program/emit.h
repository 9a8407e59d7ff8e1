#pragma once
// Finished graph -> StableHLO text in MLIR's generic form: deterministic. Each argument and operation says what it is called and
// which part of the program it belongs to, loc("model/blocks/attn/qkv/add"), which XLA keeps as metadata. What is done to a graph
// before it is printed is in ir/program/program.h.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "mesh/partition.h"

namespace tessera::ir {

struct EmitOptions {
  std::string name = "main_module";
  // (argument, result): the argument's memory is donated to the result (tf.aliasing_output).
  std::vector<std::pair<int64_t, int64_t>> aliases;
  // The devices that the program runs on; none: one device. Then the layouts of arguments and results over them, one for each,
  // or none where all are replicated. Donated arguments must lie as their results do.
  std::optional<mesh::Mesh> mesh;
  bool by_device = false;  // what the batch's rows go through is in computations of each device (ir/manual.h) already
  std::vector<mesh::PartitionSpec> argument_specs, result_specs;
};

// The module of a lowered, verified graph. Arguments are graph.parameters(), in order, used or not; results are graph.results.
std::string emit(const Graph& graph, const EmitOptions& options = {});

// The element type and shape as MLIR writes them: tensor<2x3xf32>.
std::string mlir_type(const TensorType& type);

}  // namespace tessera::ir
