#include "ir/passes/lower.h"

#include <map>

#include "base/error.h"
#include "ir/op_entries.h"

namespace tessera::ir {
namespace {

std::unique_ptr<Graph> lower_region(const Graph& region, Graph* parent) {
  auto copy = std::make_unique<Graph>(parent);
  Values arguments;
  for (const Value p : region.parameters()) arguments.push_back(copy->add_parameter(p.type(), parameter_name(p)));
  const GraphScope scope(*copy);
  copy->results = lower_inline(region, arguments);
  return copy;
}

// In every scan, also in those of regions.
void stack_bits(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->op == &kOpScan) node->attrs["_stacks_bits"] = true;
    for (const auto& region : node->regions) stack_bits(*region);
  }
}

}  // namespace

Values lower_inline(const Graph& body, const Values& arguments) {
  std::map<Value, Value> map;
  TESSERA_CHECK(arguments.size() == body.parameters().size());
  for (size_t i = 0; i < arguments.size(); ++i) map[body.parameters()[i]] = arguments[i];
  Graph& target = current_graph();
  for (Node* node : reachable_nodes(body)) {
    if (node->op == &kOpParameter) continue;
    Values operands;
    for (const Value v : node->operands) operands.push_back(target.adopt(map.at(v)));
    Values results;
    if (node->op->lower) {
      const NameScope scope = NameScope::of(*node);
      results = node->op->lower(*node, operands);
    } else {
      std::vector<std::unique_ptr<Graph>> regions;
      for (const auto& r : node->regions) regions.push_back(lower_region(*r, &target));
      Node* copy = target.add_node(*node->op, std::move(operands), node->attrs, std::move(regions));
      copy->types = node->types;
      copy->scope = node->scope;
      for (int i = 0; i < static_cast<int>(node->types.size()); ++i) results.push_back(copy->result(i));
    }
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) map[node->result(i)] = results.at(static_cast<size_t>(i));
  }
  Values out;
  for (const Value v : body.results) out.push_back(map.at(v));
  return out;
}

std::unique_ptr<Graph> lower(const Graph& graph, const Target* target) {
  TESSERA_CHECK(graph.parent() == nullptr);
  if (target && target->widens_bf16()) stack_bits(graph);
  return lower_region(graph, nullptr);
}

}  // namespace tessera::ir
