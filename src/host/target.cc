#include "host/target.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "ir/op_entries.h"
#include "ir/ops.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/split_fixed.h"
#include "ir/types_of.h"

namespace tessera::host {
namespace {

Types with_bf16_as_f32(Types types) {
  for (TensorType& type : types) {
    if (type.dtype == DType::kBF16) type.dtype = DType::kF32;
  }
  return types;
}

// Converts each value once, so that what a kernel keeps for it is found again.
ir::Values with_bf16_as_f32(ir::Values values, Selection& selection) {
  for (ir::Value& value : values) {
    if (value.dtype() != DType::kBF16) continue;
    ir::Value& converted = selection.as_f32[value];
    if (!converted) converted = ir::convert(value, DType::kF32);
    value = converted;
  }
  return values;
}

ir::Values convert_to(const Types& types, ir::Values values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = ir::convert(values[i], types[i].dtype);
  return values;
}

}  // namespace

bool Kernels::has(const Kernel& kernel) const { return std::ranges::count(kernels_, &kernel) > 0; }

Target::Target(Kernels kernels, Devices devices) : devices_(std::move(devices)) {
  if (!devices_.mesh || devices_.mesh->size("tensor") <= 1) kernels_ = std::move(kernels);
}

const Kernel* Target::taker(const ir::Composite& composite, const Types& operands) const {
  const Types as_f32 = with_bf16_as_f32(operands);
  const auto found = std::ranges::find_if(kernels_, [&](const Kernel* kernel) {
    return kernel->takes(composite, kernel->takes_bf16_as_f32 ? as_f32 : operands, devices_);
  });
  return found == kernels_.end() ? nullptr : *found;
}

bool Target::takes(const ir::Composite& composite, const std::vector<TensorType>& operands) const {
  return taker(composite, operands) != nullptr;
}

// Calls that multiply by fixed weights take them packed.
std::unique_ptr<ir::Graph> Target::prepare(const ir::Graph& selected, size_t fixed) const {
  TESSERA_CHECK(!devices_.mesh, "weights are packed for one device");
  std::map<std::string, const Preparation*> preparations;
  for (const Kernel* kernel : kernels_) {
    for (const Preparation& preparation : kernel->preparations) preparations[call_target(preparation.call)] = &preparation;
  }
  const auto is_fixed = ir::fixed_values(selected, fixed);
  return ir::rewrite(selected, [&](const ir::Node& node, const ir::Values& operands) -> std::optional<ir::Values> {
    if (node.op != &ir::kOpCustomCall || node.operands.size() <= kRightOperand) return std::nullopt;
    if (!is_fixed(node.operands[kRightOperand]) || is_fixed(node.operands[0])) return std::nullopt;
    const auto& target = node.attr<std::string>("call_target_name");
    const auto found = preparations.find(target);
    const std::optional<Packing> packing = found == preparations.end() ? std::nullopt : found->second->of(node);
    if (!packing) return std::nullopt;
    ir::Values arguments = operands;
    arguments[kRightOperand] = ir::ffi_call(call_target(packing->function), {operands[kRightOperand]},
                                            {{DType::kU8, {packing->bytes}}}, packing->attributes)[0];
    return ir::ffi_call(target, arguments, node.types, ir::call_attributes(node));
  });
}

// Composites first: what one becomes may hold products that are calls then.
std::unique_ptr<ir::Graph> Target::select_kernels(const ir::Graph& lowered) const {
  Selection selection{.devices = devices_};
  const auto called = ir::rewrite(lowered, [&](const ir::Node& node, const ir::Values& operands) -> std::optional<ir::Values> {
    if (node.op != &ir::kOpComposite) return std::nullopt;
    const auto& composite = *node.attr<std::shared_ptr<const ir::Composite>>("_composite");
    const Kernel* kernel = taker(composite, types_of(operands));
    TESSERA_CHECK(kernel, "composite {} has no kernel", composite.name());
    if (!kernel->takes_bf16_as_f32) return kernel->call(composite, operands, node.types, selection);
    const ir::Values as_f32 = with_bf16_as_f32(operands, selection);
    return convert_to(node.types, kernel->call(composite, as_f32, with_bf16_as_f32(node.types), selection));
  });
  return ir::rewrite(*called, [&](const ir::Node& node, const ir::Values& operands) -> std::optional<ir::Values> {
    for (const Kernel* kernel : kernels_) {
      if (auto replaced = kernel->replace(node, operands, selection)) return replaced;
    }
    return std::nullopt;
  });
}

}  // namespace tessera::host
