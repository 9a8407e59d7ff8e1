#include "ir/program/flops.h"

#include "ir/op_entries.h"

namespace tessera::ir {
namespace {

double elements(const Dims& dims) { return static_cast<double>(element_count(dims)); }

double own_flops(const Node& node) {
  if (node.op == &kOpDotGeneral) {
    double depth = 1;
    for (const int64_t dim : node.attr<DotDims>("dot_dimension_numbers").lhs_contract) {
      depth *= static_cast<double>(node.operands[0].dim(dim));
    }
    return 2 * depth * elements(node.types[0].dims);
  }
  if (node.op == &kOpConvolution) {
    const auto& dims = node.attr<ConvDims>("dimension_numbers");
    const Value kernel = node.operands[1];
    return 2 * elements(node.types[0].dims) * elements(kernel.dims()) /
           static_cast<double>(kernel.dim(dims.kernel_output_feature));
  }
  return 0;
}

}  // namespace

double product_flops(const Graph& graph) {
  double total = 0;
  for (const Node* node : reachable_nodes(graph)) {
    total += own_flops(*node);
    double times = 1;
    if (node->op == &kOpScan) times = static_cast<double>(node->attr<int64_t>("_length"));
    if (node->op == &kOpManualComputation) times = static_cast<double>(node->attr<int64_t>("_parts"));
    for (const auto& region : node->regions) total += times * product_flops(*region);
  }
  return total;
}

}  // namespace tessera::ir
