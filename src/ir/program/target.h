#pragma once
// The machine that a program is for, as far as its graph is concerned. Without one, programs are plain StableHLO.

#include <cstddef>
#include <memory>
#include <vector>

#include "base/shape.h"
#include "ir/graph.h"

namespace tessera::ir {

class Target {
 public:
  virtual ~Target() = default;

  // Whether it has a kernel for a composite of operands of these types.
  virtual bool takes(const Composite& composite, const std::vector<TensorType>& operands) const = 0;

  // A copy of a lowered graph in which its kernels are called: for every composite in it, and for other
  // nodes that it has a kernel for. It takes every composite of the graph.
  virtual std::unique_ptr<Graph> select_kernels(const Graph& lowered) const = 0;

  // A copy of a graph of its calls, for several runs with the same first `fixed` parameters: a call that makes something of such
  // parameters before it works takes that from a call of its own (ir/passes/split_fixed.h).
  virtual std::unique_ptr<Graph> prepare(const Graph& selected, size_t fixed) const = 0;

  // Sums over several dimensions are slow: a layer that has the choice sums over one.
  virtual bool prefers_flat_sums() const = 0;
  // A loop copies the arrays that it stacks in every iteration, which takes longer than small layers do.
  virtual bool stacks_slowly() const = 0;
  // Blocks of layers are written out, and no loop: what their gradients read is not stacked and taken apart again, and what they
  // compute again stays apart from what was computed first (ScanOptions::prevent_cse).
  virtual bool unrolls_blocks() const = 0;
  // Norms keep means and deviations in arrays, and have gradients of few passes over memory. Left to itself XLA computes those of
  // rows again in every kernel that reads them, and such a kernel can't sum over rows: it writes all normed rows in f32 first.
  virtual bool keeps_statistics() const = 0;
  // There is memory for all that gradients read: with RematPolicy::automatic nothing is computed again.
  virtual bool keeps_activations() const = 0;
  // All-gathers are fast along the first dimension only.
  virtual bool gathers_first_dimension_fast() const = 0;
  // Arithmetic in bf16 is done in f32. That holds for writing to a part of an array too, so a loop that fills a stack would
  // convert all of it each time: scans stack the numbers' bits.
  virtual bool widens_bf16() const = 0;
};

}  // namespace tessera::ir
