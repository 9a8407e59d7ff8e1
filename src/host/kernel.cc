#include "host/kernel.h"

#include <algorithm>

#include "ir/manual.h"
#include "ir/ops.h"

namespace tessera::host {

std::string call_target(const std::string& name) { return "tessera." + name; }

ir::Values call_function(const ir::Composite& composite, const ir::Values& operands, const Types& results,
                         Selection& selection) {
  const std::string target = call_target(composite.name());
  if (!selection.devices.mesh) return ir::ffi_call(target, operands, results, composite.encoded());
  Types own = results;
  for (TensorType& type : own) type.dims.at(0) /= selection.devices.count();
  return ir::shard_map(*selection.devices.mesh, operands, std::vector<int64_t>(operands.size(), 0),
                       [&](const ir::Values& local) { return ir::ffi_call(target, local, own, composite.encoded()); });
}

ir::Values call_with_whole_kernel(const ir::Composite& composite, const ir::Values& operands, const Types& results,
                                  Selection& selection, const KernelFunctions& functions) {
  const Devices& devices = selection.devices;
  const auto call = [&](const char* name, const ir::Values& arguments, const std::vector<int64_t>& split, TensorType out) {
    if (devices.mesh) out.dims[0] /= devices.count();
    const auto local = [&](const ir::Values& own) { return ir::ffi_call(call_target(name), own, {out}, composite.encoded()); };
    return devices.mesh ? ir::shard_map(*devices.mesh, arguments, split, local)[0] : local(arguments)[0];
  };
  const ir::Value x = operands[0], kernel = operands[1];
  if (operands.size() == 2) return {call(functions.forward, operands, {0, ir::kWhole}, results[0])};
  const ir::Value dy = operands[2];
  const ir::Value dx = call(functions.input_gradient, {dy, kernel}, {0, ir::kWhole}, results[0]);
  TensorType parts = results[1];
  if (devices.mesh) parts.dims.insert(parts.dims.begin(), devices.count());
  const ir::Value dkernel = call(functions.kernel_gradient, {x, dy}, {0, 0}, parts);
  return {dx, devices.mesh ? ir::sum(dkernel, {0}) : dkernel};
}

bool all_f32(const Types& types) {
  return std::ranges::all_of(types, [](const TensorType& type) { return type.dtype == DType::kF32; });
}

bool all_bf16(const Types& types) {
  return std::ranges::all_of(types, [](const TensorType& type) { return type.dtype == DType::kBF16; });
}

std::span<const Kernel* const> kernel_table() {
  static constexpr const Kernel* kTable[] = {
#define KERNEL(name) &k##name,
#include "host/kernels.def"
#undef KERNEL
  };
  return kTable;
}

}  // namespace tessera::host
