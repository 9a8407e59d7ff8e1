#pragma once
// NVIDIA GPUs as the target of a program: no kernels of ours, and blocks without loops.

#include "ir/target.h"

namespace tessera::ir {

class GpuTarget final : public Target {
 public:
  bool takes(const Composite&, const std::vector<TensorType>&) const override { return false; }
  std::unique_ptr<Graph> select_kernels(const Graph& lowered) const override;
  std::unique_ptr<Graph> prepare(const Graph& selected, size_t fixed) const override;
  bool prefers_flat_sums() const override { return false; }
  bool stacks_slowly() const override { return true; }
  // XLA fills stacks with zeros, and writes and reads their slices in kernels of their own: figures in docs/benchmarks.md.
  bool unrolls_blocks() const override { return true; }
  bool gathers_first_dimension_fast() const override { return false; }
  bool widens_bf16() const override { return false; }
};

}  // namespace tessera::ir
