#include "optim/blocks.h"

#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::optim {

using ir::Value;

Value block_sum(const Param& param, Value x) {
  Dims axes;
  for (int64_t axis = param.stacked ? 1 : 0; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes.empty() ? x : ir::sum(x, axes, /*keep_dims=*/true);
}

Value block_mean(const Param& param, Value x) {
  return block_sum(param, x) * (1.0 / static_cast<double>(element_count(param.block_dims())));
}

Value block_norm(const Param& param, Value x) { return ir::sqrt(block_sum(param, ir::square(x))); }

Value block_rms(const Param& param, Value x) { return ir::sqrt(block_mean(param, ir::square(x))); }

Value mean_along(const Param& param, Value x, int64_t axis) {
  return ir::mean(x, {axis + (param.stacked ? 1 : 0)}, /*keep_dims=*/true);
}

Value cautious(const Param& param, Value update, Value grad) {
  const Value agree = ir::convert(ir::compare(ir::Compare::kGt, update * grad, ir::zeros_like(update)), update.dtype());
  return update * agree / ir::maximum(block_mean(param, agree), ir::constant(1e-3));
}

}  // namespace tessera::optim
