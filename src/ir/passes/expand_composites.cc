#include "ir/passes/expand_composites.h"

#include <optional>
#include <vector>

#include "ir/composite.h"
#include "ir/op_entries.h"
#include "ir/passes/rewrite.h"

namespace tessera::ir {

std::unique_ptr<Graph> expand_composites(const Graph& graph, const Target* target) {
  return rewrite(graph, [&](const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.op != &kOpComposite) return std::nullopt;
    const Composite& composite = *node.attr<std::shared_ptr<const Composite>>("_composite");
    std::vector<TensorType> types;
    for (const Value v : operands) types.push_back(v.type());
    if (target && target->takes(composite, types)) return std::nullopt;
    return composite.decompose(operands);
  });
}

}  // namespace tessera::ir
