#pragma once
// Graph -> verified StableHLO text in MLIR's generic form: deterministic, no locations.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/host_kernels.h"
#include "ir/graph.h"
#include "mesh/partition.h"

namespace tessera::ir {

struct EmitOptions {
  std::string name = "main_module";
  // (argument, result): the argument's memory is donated to the result (tf.aliasing_output).
  std::vector<std::pair<int64_t, int64_t>> aliases;
  HostKernels kernels;  // its `product` is called for large f32 products
  // The devices that the program runs on; none: one device. Then the layouts of arguments and results over them, one for each,
  // or none where all are replicated. Donated arguments must lie as their results do.
  std::optional<mesh::Mesh> mesh;
  std::vector<mesh::PartitionSpec> argument_specs, result_specs;
};

// A copy in which every `tessera.*` op is written in StableHLO. `graph` has no parent.
std::unique_ptr<Graph> lower(const Graph& graph);

// Checks every node against its shape rule, order, ownership and regions, and each alias's types; throws InternalError
// otherwise.
void verify(const Graph& graph);

struct Emitted {
  std::string text;
  bool has_loops = false;  // a stablehlo.while somewhere
};

// lower + verify + text. Arguments are graph.parameters(), in order, used or not; results are graph.results.
Emitted emit_program(const Graph& graph, const EmitOptions& options = {});
// Its text alone.
std::string emit(const Graph& graph, const EmitOptions& options = {});

// The element type and shape as MLIR writes them: tensor<2x3xf32>.
std::string mlir_type(const TensorType& type);

}  // namespace tessera::ir
