#include "ir/manual.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/op_entries.h"
#include "ir/sharding.h"
#include "mesh/partition.h"

namespace tessera::ir {
namespace {

// A dimension of an array, split over the batch's axes; none: the array is whole on every device.
mesh::PartitionSpec split_at(std::optional<int64_t> dim, const mesh::Mesh& mesh) {
  mesh::PartitionSpec spec;
  if (dim) spec.dims.resize(static_cast<size_t>(*dim) + 1), spec.dims.back() = mesh::batch_axes(mesh);
  return spec;
}

TextAttr shardings(const std::vector<std::string>& each) {
  std::string list;
  for (const std::string& sharding : each) {
    list += (list.empty() ? "" : ", ") + sharding.substr(std::string_view("#sdy.sharding").size());
  }
  return {"#sdy.sharding_per_value<[" + list + "]>"};
}

TextAttr all_axes(const mesh::Mesh& mesh) {
  std::string list;
  for (const mesh::Axis& axis : mesh.axes) list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", axis.name);
  return {"#sdy<manual_axes{" + list + "}>"};
}

void split(Node& node, const mesh::Mesh& mesh) {
  const auto& dims = node.attr<ConvDims>("dimension_numbers");
  const mesh::PartitionSpec rows = split_at(dims.input_batch, mesh), whole, out = split_at(dims.output_batch, mesh);
  const TensorType &x = node.operands[0].type(), &kernel = node.operands[1].type();
  auto body = std::make_unique<Graph>(node.graph);
  {
    const GraphScope scope(*body);
    const Value local = body->add_parameter({x.dtype, mesh::shard_dims(mesh, x.dims, rows)});
    body->results = {make_node(kOpConvolution, {local, body->add_parameter(kernel)}, node.attrs)->result()};
  }
  node.attrs = {
      {"in_shardings", shardings({sharding_text(rows, x.rank()), sharding_text(whole, kernel.rank())})},
      {"out_shardings", shardings({sharding_text(out, node.types[0].rank())})},
      {"manual_axes", all_axes(mesh)},
      {"_split", dims.output_batch},
      {"_parts", mesh::batch_parts(mesh)},
  };
  node.op = &kOpManualComputation;
  node.regions.push_back(std::move(body));
}

}  // namespace

void split_grouped_convolutions(Graph& lowered, const mesh::Mesh& mesh) {
  for (Node* node : reachable_nodes(lowered)) {
    for (const auto& region : node->regions) split_grouped_convolutions(*region, mesh);
    if (node->op != &kOpConvolution || node->attr<int64_t>("feature_group_count") == 1) continue;
    const auto& dims = node->attr<ConvDims>("dimension_numbers");
    if (node->operands[1].dim(dims.kernel_input_feature) > 1) split(*node, mesh);
  }
}

}  // namespace tessera::ir
