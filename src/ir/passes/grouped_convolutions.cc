#include "ir/passes/grouped_convolutions.h"

#include <optional>

#include "ir/manual.h"
#include "ir/op_entries.h"
#include "ir/passes/rewrite.h"

namespace tessera::ir {
namespace {

bool has_groups_of_several(const Node& node) {
  if (node.op != &kOpConvolution || node.attr<int64_t>("feature_group_count") == 1) return false;
  return node.operands[1].dim(node.attr<ConvDims>("dimension_numbers").kernel_input_feature) > 1;
}

}  // namespace

std::unique_ptr<Graph> split_grouped_convolutions(const Graph& graph, const mesh::Mesh& mesh) {
  return rewrite(graph, [&](const Node& node, const Values& operands) -> std::optional<Values> {
    if (!has_groups_of_several(node)) return std::nullopt;
    const auto& dims = node.attr<ConvDims>("dimension_numbers");
    const auto convolve = [&](const Values& local) -> Values {
      return {make_node(kOpConvolution, local, node.attrs)->result()};
    };
    return shard_map(mesh, operands, {dims.input_batch, kWhole}, convolve, dims.output_batch);
  });
}

}  // namespace tessera::ir
