#include "ir/manual.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
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

// `in` and `out`: where the operands and results of the region lie; results are split along `dim`.
Attrs manual_attrs(const mesh::Mesh& mesh, const std::vector<std::string>& in, const std::vector<std::string>& out,
                   int64_t dim) {
  return {{"in_shardings", shardings(in)},
          {"out_shardings", shardings(out)},
          {"manual_axes", all_axes(mesh)},
          {"_split", dim},
          {"_parts", mesh::batch_parts(mesh)}};
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
  node.attrs = manual_attrs(mesh, {sharding_text(rows, x.rank()), sharding_text(whole, kernel.rank())},
                            {sharding_text(out, node.types[0].rank())}, dims.output_batch);
  node.op = &kOpManualComputation;
  node.regions.push_back(std::move(body));
}

}  // namespace

Values shard_map(const mesh::Mesh& mesh, const Values& operands, const std::vector<bool>& rows, const LoopFn& body) {
  TESSERA_CHECK(rows.size() == operands.size());
  auto region = std::make_unique<Graph>(&current_graph());
  std::vector<std::string> in, out;
  {
    const GraphScope scope(*region);
    Values local;
    for (size_t i = 0; i < operands.size(); ++i) {
      const mesh::PartitionSpec spec = split_at(rows[i] ? std::optional<int64_t>(0) : std::nullopt, mesh);
      const TensorType& type = operands[i].type();
      local.push_back(region->add_parameter({type.dtype, mesh::shard_dims(mesh, type.dims, spec)}));
      in.push_back(sharding_text(spec, type.rank()));
    }
    region->results = body(local);
    for (Value& result : region->results) result = region->adopt(result);
  }
  TESSERA_CHECK(region->captures.empty() && region->slices.empty(), "what a device does alone uses a value from outside");
  for (const Value v : region->results) out.push_back(sharding_text(split_at(0, mesh), v.rank()));
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(std::move(region));
  Node* node = make_node(kOpManualComputation, operands, manual_attrs(mesh, in, out, 0), std::move(regions));
  Values results;
  for (size_t i = 0; i < node->types.size(); ++i) results.push_back(node->result(static_cast<int>(i)));
  return results;
}

void split_grouped_convolutions(Graph& lowered, const mesh::Mesh& mesh) {
  for (Node* node : reachable_nodes(lowered)) {
    for (const auto& region : node->regions) split_grouped_convolutions(*region, mesh);
    if (node->op != &kOpConvolution || node->attr<int64_t>("feature_group_count") == 1) continue;
    const auto& dims = node->attr<ConvDims>("dimension_numbers");
    if (node->operands[1].dim(dims.kernel_input_feature) > 1) split(*node, mesh);
  }
}

}  // namespace tessera::ir
