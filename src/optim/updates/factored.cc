#include "optim/updates/factored.h"

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/blocks.h"

namespace tessera::optim {

using ir::Value;

std::vector<Slot> factored_slots(const Param& param, const FactoredAxes& axes) {
  if (!axes) return {{"nu", param.block_dims()}};
  Dims row = param.block_dims(), col = row;
  row[static_cast<size_t>(axes->second)] = 1;
  col[static_cast<size_t>(axes->first)] = 1;
  return {{"nu_row", row}, {"nu_col", col}};
}

Preconditioned precondition(const Param& param, const FactoredAxes& axes, Value grad, const ir::Values& slots, Value b2,
                            double eps) {
  const Value square = ir::square(grad) + eps;
  if (!axes) {
    const Value nu = moving_mean(slots[0], square, b2);
    return {grad * ir::rsqrt(nu), {nu}};
  }
  const Value row = moving_mean(slots[0], mean_along(param, square, axes->second), b2);
  const Value col = moving_mean(slots[1], mean_along(param, square, axes->first), b2);
  const Value relative = row / mean_along(param, row, axes->first);
  return {grad * ir::rsqrt(relative) * ir::rsqrt(col), {row, col}};
}

Value adafactor_decay(Value step, double power) { return -ir::expm1(ir::log(step) * -power); }

Value clip_rms(const Param& param, Value x, double threshold) {
  return x / ir::maximum(block_rms(param, x) / threshold, ir::constant(1));
}

}  // namespace tessera::optim
