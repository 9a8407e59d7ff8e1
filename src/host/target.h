#pragma once
// This host as the target of a program (ir/program/target.h).

#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "host/kernel.h"
#include "ir/program/target.h"
#include "mesh/mesh.h"

namespace tessera::host {

// Which kernels a program may call; none by default.
class Kernels {
 public:
  Kernels() = default;
  Kernels(std::initializer_list<const Kernel*> kernels) : kernels_(kernels) {}

  void add(const Kernel& kernel) { kernels_.push_back(&kernel); }
  bool empty() const { return kernels_.empty(); }
  bool has(const Kernel& kernel) const;
  auto begin() const { return kernels_.begin(); }
  auto end() const { return kernels_.end(); }
  bool operator==(const Kernels&) const = default;

 private:
  std::vector<const Kernel*> kernels_;
};

class Target : public ir::Target {
 public:
  // With a mesh, the target of a program over virtual devices of this host. Calls take whole rows, so that no kernel is used
  // where the mesh splits features. With no kernels, as for other machines, programs are the same as without a target.
  explicit Target(Kernels kernels, std::optional<mesh::Mesh> mesh = {})
      : Target(std::move(kernels), Devices{std::move(mesh)}) {}
  Target(Kernels kernels, Devices devices);

  bool takes(const ir::Composite& composite, const std::vector<TensorType>& operands) const override;
  std::unique_ptr<ir::Graph> select_kernels(const ir::Graph& lowered) const override;
  // For one device: without a mesh.
  std::unique_ptr<ir::Graph> prepare(const ir::Graph& selected, size_t fixed) const override;
  // XLA's CPU backend turns a sum over three dimensions into a windowed reduction, which it computes one number at a time.
  bool prefers_flat_sums() const override { return !kernels_.empty() && !devices_.mesh; }
  bool stacks_slowly() const override { return !kernels_.empty() && !devices_.mesh; }
  // Compiling takes longer than stacks do, but for blocks of a few calls, which ask for it themselves (nn/blocks/blocks.h).
  bool unrolls_blocks() const override { return false; }
  bool keeps_statistics() const override { return false; }
  bool keeps_activations() const override { return false; }
  // XLA transposes the whole array before and after a gather along another dimension, one number at a time.
  bool gathers_first_dimension_fast() const override { return !kernels_.empty() && devices_.mesh; }
  bool widens_bf16() const override { return !kernels_.empty(); }

 private:
  const Kernel* taker(const ir::Composite& composite, const Types& operands) const;

  Kernels kernels_;
  Devices devices_;
};

}  // namespace tessera::host
