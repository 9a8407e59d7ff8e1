#pragma once
// NVIDIA GPUs as the target of a program: blocks without loops, and attention by cuDNN where that works.

#include <functional>
#include <optional>
#include <utility>

#include "ir/program/cudnn_attention.h"
#include "ir/program/target.h"
#include "mesh/mesh.h"

namespace tessera::ir {

class GpuTarget final : public Target {
 public:
  using Works = std::function<bool(const AttentionSizes&)>;

  // `mesh`: of a program for several devices; each device calls cuDNN for its own examples. `cudnn_works`: called with the sizes of
  // an attention in bf16; false keeps it in plain ops. Null: all attention is in plain ops.
  explicit GpuTarget(std::optional<mesh::Mesh> mesh = {}, Works cudnn_works = {}, bool keeps_activations = false)
      : mesh_(std::move(mesh)), cudnn_works_(std::move(cudnn_works)), keeps_activations_(keeps_activations) {}

  bool takes(const Composite& composite, const std::vector<TensorType>& operands) const override;
  std::unique_ptr<Graph> select_kernels(const Graph& lowered) const override;
  std::unique_ptr<Graph> prepare(const Graph& selected, size_t fixed) const override;
  bool prefers_flat_sums() const override { return false; }
  bool stacks_slowly() const override { return true; }
  // XLA fills stacks with zeros, and writes and reads their slices in kernels of their own: figures in docs/benchmarks.md.
  bool unrolls_blocks() const override { return true; }
  bool keeps_statistics() const override { return true; }
  bool keeps_activations() const override { return keeps_activations_; }
  bool gathers_first_dimension_fast() const override { return false; }
  bool widens_bf16() const override { return false; }

 private:
  std::optional<mesh::Mesh> mesh_;
  Works cudnn_works_;
  bool keeps_activations_;
};

}  // namespace tessera::ir
