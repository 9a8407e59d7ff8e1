#include "ir/passes/verify.h"

#include <set>
#include <string_view>

#include "base/error.h"
#include "ir/op_entries.h"

namespace tessera::ir {

void verify(const Graph& graph) {
  std::set<Value> defined(graph.parameters().begin(), graph.parameters().end());
  TESSERA_CHECK(defined.size() == graph.parameters().size(), "a parameter is listed twice");
  for (const Value p : graph.parameters()) TESSERA_CHECK(p.node->graph == &graph && p.node->op == &kOpParameter);
  for (Node* node : reachable_nodes(graph)) {
    TESSERA_CHECK(node->graph == &graph, "{} is listed in a graph that does not own it", describe(*node));
    if (node->op == &kOpParameter) {
      TESSERA_CHECK(defined.contains(node->result()), "a parameter in use is not listed");
      continue;
    }
    for (const Value v : node->operands)
      TESSERA_CHECK(defined.contains(v), "{} uses a value before it is defined", describe(*node));
    std::vector<TensorType> expected = node->op->infer(*node);
    TESSERA_CHECK(expected == node->types, "{} has types that its shape rule does not give", describe(*node));
    for (const auto& region : node->regions) {
      TESSERA_CHECK(region->parent() == &graph, "a region of {} has another parent", describe(*node));
      verify(*region);
    }
    for (int i = 0; i < static_cast<int>(node->types.size()); ++i) defined.insert(node->result(i));
  }
  for (const Value v : graph.results) TESSERA_CHECK(defined.contains(v), "a result is not defined in its graph");
}

}  // namespace tessera::ir
