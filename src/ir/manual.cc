#include "ir/manual.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/op_entries.h"
#include "ir/sharding.h"
#include "mesh/partition.h"

namespace tessera::ir {
namespace {

// A dimension of an array, or kWhole, split over the batch's axes.
mesh::PartitionSpec split_at(int64_t dim, const mesh::Mesh& mesh) {
  mesh::PartitionSpec spec;
  if (dim != kWhole) spec.dims.resize(static_cast<size_t>(dim) + 1), spec.dims.back() = mesh::batch_axes(mesh);
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

}  // namespace

Values shard_map(const mesh::Mesh& mesh, const Values& operands, const std::vector<int64_t>& split, const LoopFn& body,
                 int64_t result_split) {
  TESSERA_CHECK(split.size() == operands.size());
  auto region = std::make_unique<Graph>(&current_graph());
  std::vector<std::string> in, out;
  {
    const GraphScope scope(*region);
    Values local;
    for (size_t i = 0; i < operands.size(); ++i) {
      const mesh::PartitionSpec spec = split_at(split[i], mesh);
      const TensorType& type = operands[i].type();
      local.push_back(region->add_parameter({type.dtype, mesh::shard_dims(mesh, type.dims, spec)}));
      in.push_back(sharding_text(spec, type.rank()));
    }
    region->results = body(local);
    for (Value& result : region->results) result = region->adopt(result);
  }
  TESSERA_CHECK(region->captures.empty() && region->slices.empty(), "what a device does alone uses a value from outside");
  for (const Value v : region->results) out.push_back(sharding_text(split_at(result_split, mesh), v.rank()));
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(std::move(region));
  Node* node = make_node(kOpManualComputation, operands, manual_attrs(mesh, in, out, result_split), std::move(regions));
  Values results;
  for (size_t i = 0; i < node->types.size(); ++i) results.push_back(node->result(static_cast<int>(i)));
  return results;
}

}  // namespace tessera::ir
