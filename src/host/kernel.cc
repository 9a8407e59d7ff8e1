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
