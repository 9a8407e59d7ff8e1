#pragma once
// Depth: equal blocks as one scan over their stacked parameters.

#include <functional>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "nn/scope.h"

namespace tessera::nn {

struct BlockOptions {
  int64_t count = 1;
  // Stochastic depth of each block, in [0, 1); empty: none.
  std::vector<double> drop_path;
  ir::RematPolicy remat;
  bool unroll = false;  // of a stage, all blocks but the first
};

// One block: the scope of its parameters, what enters it and its rate of stochastic depth, which is none where nothing is
// dropped (no rates, or the scope draws nothing at random). Gives a value of x's type.
using Block = std::function<ir::Value(const Scope& scope, ir::Value x, ir::Value drop_path)>;

// Whether the policy keeps all of `products`, so that nothing large is computed again.
bool keeps(const ir::RematPolicy& policy, const std::vector<std::string>& products);

// Whether a scan over blocks of few ops is to be written out: the target stacks slowly, and the policy keeps their products. Where
// something is to be computed again, only the loop's end keeps the compiler from keeping it.
bool written_out(const Scope& scope, const ir::RematPolicy& policy, const std::vector<std::string>& products);

// Runs the blocks one after the other; `scope` is called `blocks`. `last`, where given, is called in place of `block` for the
// last one. Its result may have another type than x. It is traced by itself, and nothing in it is computed again.
ir::Value scan_blocks(const Scope& scope, ir::Value x, const BlockOptions& options, const Block& block,
                      const Block& last = nullptr);

// A stage whose first block differs in shape from the rest: `first` in the scope `<scope>/first`, the other count - 1 scanned
// in
// `<scope>/blocks`.
ir::Value stage(const Scope& scope, ir::Value x, const BlockOptions& options, const Block& first, const Block& rest);

// 0, …, last, growing linearly over `count` blocks: the usual rule of stochastic depth (Huang et al. 2016). All 0 for one
// block.
std::vector<double> linear_rates(double last, int64_t count);

}  // namespace tessera::nn
