#include "host/target.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ir/op_entries.h"
#include "ir/passes/rewrite.h"

namespace tessera::host {
namespace {

Types types_of(const ir::Values& values) {
  Types types;
  for (const ir::Value v : values) types.push_back(v.type());
  return types;
}

}  // namespace

bool Kernels::has(const Kernel& kernel) const { return std::ranges::count(kernels_, &kernel) > 0; }

Target::Target(Kernels kernels, std::optional<mesh::Mesh> mesh) : devices_{std::move(mesh)} {
  if (!devices_.mesh || devices_.mesh->size("tensor") <= 1) kernels_ = std::move(kernels);
}

const Kernel* Target::taker(const ir::Composite& composite, const Types& operands) const {
  const auto found =
      std::ranges::find_if(kernels_, [&](const Kernel* kernel) { return kernel->takes(composite, operands, devices_); });
  return found == kernels_.end() ? nullptr : *found;
}

bool Target::takes(const ir::Composite& composite, const std::vector<TensorType>& operands) const {
  return taker(composite, operands) != nullptr;
}

// Composites first: what one becomes may hold products that are calls then.
std::unique_ptr<ir::Graph> Target::select_kernels(const ir::Graph& lowered) const {
  Selection selection{.devices = devices_};
  const auto called = ir::rewrite(lowered, [&](const ir::Node& node, const ir::Values& operands) -> std::optional<ir::Values> {
    if (node.op != &ir::kOpComposite) return std::nullopt;
    const auto& composite = *node.attr<std::shared_ptr<const ir::Composite>>("_composite");
    const Kernel* kernel = taker(composite, types_of(operands));
    TESSERA_CHECK(kernel, "composite {} has no kernel", composite.name());
    return kernel->call(composite, operands, node.types, selection);
  });
  return ir::rewrite(*called, [&](const ir::Node& node, const ir::Values& operands) -> std::optional<ir::Values> {
    for (const Kernel* kernel : kernels_) {
      if (auto replaced = kernel->replace(node, operands, selection)) return replaced;
    }
    return std::nullopt;
  });
}

}  // namespace tessera::host
