#include "ir/manual.h"

#include <fmt/format.h>

#include <functional>
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

// The dimensions of the whole array, from those of one device's part.
Dims whole_dims(const mesh::Mesh& mesh, Dims part, const mesh::PartitionSpec& spec) {
  for (size_t d = 0; d < spec.dims.size(); ++d) part.at(d) *= mesh::parts(mesh, spec.dims[d]);
  return part;
}

using SpecOf = std::function<mesh::PartitionSpec(size_t)>;

// `in` and `out`: where each operand and result lies.
Values manual_computation(const mesh::Mesh& mesh, const Values& operands, const SpecOf& in, const LoopFn& body,
                          const SpecOf& out) {
  auto region = std::make_unique<Graph>(&current_graph());
  std::vector<std::string> in_shardings, out_shardings;
  {
    const GraphScope scope(*region);
    Values local;
    for (size_t i = 0; i < operands.size(); ++i) {
      const TensorType& type = operands[i].type();
      local.push_back(region->add_parameter({type.dtype, mesh::shard_dims(mesh, type.dims, in(i))}));
      in_shardings.push_back(sharding_text(in(i), type.rank()));
    }
    region->results = body(local);
    for (Value& result : region->results) result = region->adopt(result);
  }
  TESSERA_CHECK(region->captures.empty() && region->slices.empty(), "what a device does alone uses a value from outside");
  Dims result_dims;  // of all results, one after the other
  for (size_t i = 0; i < region->results.size(); ++i) {
    const Value v = region->results[i];
    const Dims dims = whole_dims(mesh, v.dims(), out(i));
    result_dims.insert(result_dims.end(), dims.begin(), dims.end());
    out_shardings.push_back(sharding_text(out(i), v.rank()));
  }
  std::vector<std::unique_ptr<Graph>> regions;
  regions.push_back(std::move(region));
  Node* node = make_node(kOpManualComputation, operands,
                         {{"in_shardings", shardings(in_shardings)},
                          {"out_shardings", shardings(out_shardings)},
                          {"manual_axes", all_axes(mesh)},
                          {"_result_dims", result_dims},
                          {"_parts", mesh::batch_parts(mesh)}},
                         std::move(regions));
  Values results;
  for (size_t i = 0; i < node->types.size(); ++i) results.push_back(node->result(static_cast<int>(i)));
  return results;
}

}  // namespace

Values shard_map(const mesh::Mesh& mesh, const Values& operands, const std::vector<int64_t>& split, const LoopFn& body,
                 int64_t result_split) {
  TESSERA_CHECK(split.size() == operands.size());
  const auto in = [&](size_t i) { return split_at(split[i], mesh); };
  return manual_computation(mesh, operands, in, body, [&](size_t) { return split_at(result_split, mesh); });
}

Values shard_map_from(const mesh::Mesh& mesh, const Values& operands, const std::vector<mesh::PartitionSpec>& specs,
                      const LoopFn& body, int64_t result_split) {
  TESSERA_CHECK(specs.size() == operands.size());
  return manual_computation(
      mesh, operands, [&](size_t i) { return specs[i]; }, body, [&](size_t) { return split_at(result_split, mesh); });
}

Values shard_map_at(const mesh::Mesh& mesh, const Values& operands, const std::vector<mesh::PartitionSpec>& specs,
                    const LoopFn& body) {
  TESSERA_CHECK(specs.size() == operands.size());
  const auto spec = [&](size_t i) { return specs[i]; };
  return manual_computation(mesh, operands, spec, body, spec);
}

}  // namespace tessera::ir
