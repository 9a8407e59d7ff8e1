#include "ir/passes/rewrite.h"

#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/op_entries.h"

namespace tessera::ir {
namespace {

std::unique_ptr<Graph> rewrite_into(const Graph& graph, Graph* parent, const Replace& replace);

Values copy_node(const Node& node, Values operands, const Replace& replace) {
  Graph& target = current_graph();
  std::vector<std::unique_ptr<Graph>> regions;
  for (const auto& region : node.regions) regions.push_back(rewrite_into(*region, &target, replace));
  Node* copy = target.add_node(*node.op, std::move(operands), node.attrs, std::move(regions));
  copy->types = node.types;
  copy->scope = node.scope;
  Values results;
  for (size_t i = 0; i < node.types.size(); ++i) results.push_back(copy->result(static_cast<int>(i)));
  return results;
}

std::unique_ptr<Graph> rewrite_into(const Graph& graph, Graph* parent, const Replace& replace) {
  auto copy = std::make_unique<Graph>(parent);
  copy->scan_length = graph.scan_length;
  std::map<Value, Value> map;
  for (const Value p : graph.parameters()) map[p] = copy->add_parameter(p.type(), parameter_name(p));
  const GraphScope scope(*copy);
  for (const Node* node : reachable_nodes(graph)) {
    if (node->op == &kOpParameter) continue;
    Values operands;
    for (const Value v : node->operands) operands.push_back(map.at(v));
    const NameScope node_scope = NameScope::of(*node);
    std::optional<Values> replaced = replace(*node, operands);
    const Values results = replaced ? *std::move(replaced) : copy_node(*node, std::move(operands), replace);
    TESSERA_CHECK(results.size() == node->types.size(), "{} was replaced by {} values", describe(*node), results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const Value result{const_cast<Node*>(node), static_cast<int>(i)};
      TESSERA_CHECK(!results[i] || results[i].type() == result.type(), "{} was replaced by {}", describe(*node),
                    to_string(results[i].type()));
      map[result] = results[i];
    }
  }
  for (const Value v : graph.results) copy->results.push_back(map.at(v));
  return copy;
}

}  // namespace

std::unique_ptr<Graph> rewrite(const Graph& graph, const Replace& replace) {
  TESSERA_CHECK(graph.parent() == nullptr);
  return rewrite_into(graph, nullptr, replace);
}

}  // namespace tessera::ir
