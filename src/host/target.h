#pragma once
// This host as the target of a program (ir/target.h).

#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "host/kernel.h"
#include "ir/target.h"
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
  // A program over virtual devices of this host where there is a mesh. A call takes whole rows: where the mesh splits features,
  // there is none. Without kernels, as for other machines, it is no target: programs are what they are without one.
  // `one_of_many`: other processes have the other rows of the batch.
  explicit Target(Kernels kernels, std::optional<mesh::Mesh> mesh = {}, bool one_of_many = false);

  bool takes(const ir::Composite& composite, const std::vector<TensorType>& operands) const override;
  std::unique_ptr<ir::Graph> select_kernels(const ir::Graph& lowered) const override;
  // XLA's code for the CPU turns sums over three dimensions into windows that it takes number by number.
  bool prefers_flat_sums() const override { return !kernels_.empty() && !devices_.mesh; }
  bool stacks_slowly() const override { return !kernels_.empty() && !devices_.mesh; }
  // It gathers along another dimension by turning the whole array over, number by number, before and after.
  bool gathers_first_dimension_fast() const override { return !kernels_.empty() && devices_.mesh; }
  bool widens_bf16() const override { return !kernels_.empty(); }

 private:
  const Kernel* taker(const ir::Composite& composite, const Types& operands) const;

  Kernels kernels_;
  Devices devices_;
};

}  // namespace tessera::host
