#include "ir/gpu_target.h"

#include "base/error.h"
#include "ir/passes/rewrite.h"

namespace tessera::ir {

std::unique_ptr<Graph> GpuTarget::select_kernels(const Graph& lowered) const {
  return rewrite(lowered, [](const Node&, const Values&) -> std::optional<Values> { return std::nullopt; });
}

std::unique_ptr<Graph> GpuTarget::prepare(const Graph&, size_t) const {
  TESSERA_CHECK(false, "a GPU calls no kernels of ours");
}

}  // namespace tessera::ir
