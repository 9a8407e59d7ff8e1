#pragma once
// Second moments kept as their means over two dimensions (Shazeer, Stern 2018: Adafactor).

#include <optional>
#include <utility>
#include <vector>

#include "optim/update_rule.h"

namespace tessera::optim {

// The dimensions of one block's array that are factored; nothing where the moment is kept whole.
using FactoredAxes = std::optional<std::pair<int64_t, int64_t>>;

// "nu_row" and "nu_col", with size 1 along the second and the first axis; or "nu".
std::vector<Slot> factored_slots(const Param& param, const FactoredAxes& axes);

struct Preconditioned {
  ir::Value grad;    // over the root of the second moment
  ir::Values slots;  // new ones
};
// nu <- b2 nu + (1 - b2) (g^2 + eps), and g / sqrt(nu); factored: row and col, its means over the second and the first axis,
// stand for nu = row col / mean(row). `b2` is an f32 scalar.
Preconditioned precondition(const Param& param, const FactoredAxes& axes, ir::Value grad, const ir::Values& slots, ir::Value b2,
                            double eps);

// 1 - t^-power, exact for small values.
ir::Value adafactor_decay(ir::Value step, double power);
// Scaled down to at most this root mean square.
ir::Value clip_rms(const Param& param, ir::Value x, double threshold);

}  // namespace tessera::optim
