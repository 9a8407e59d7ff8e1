#include "optim/update_rule.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text/text.h"
#include "ir/ops.h"

namespace tessera::optim {

using ir::Value;

Decay parse_decay(const config::Section& section, const std::string& text) {
  static const std::vector<std::string> names = {"none", "lr", "schedule", "square"};
  for (size_t i = 0; i < names.size(); ++i) {
    if (text == names[i]) return static_cast<Decay>(i);
  }
  section.fail("decoupled", fmt::format("is \"{}\"", text), suggest_name(text, names));
}

Value UpdateRule::shrink(Value value, const UpdateContext& c) const {
  if (decay_ == Decay::kNone || c.weight_decay == 0) return value;
  const Value share = decay_ == Decay::kSchedule ? c.schedule : decay_ == Decay::kLr ? c.lr : c.lr * c.lr / c.base;
  return value * (1.0 - share * c.weight_decay);
}

Value UpdateRule::penalize(Value grad, Value value, const UpdateContext& c) const {
  return decay_ != Decay::kNone || c.weight_decay == 0 ? grad : grad + value * c.weight_decay;
}

// By expm1, since b^t in f32 leaves few digits when b is near 1.
Value bias_correction(double b, Value step) { return b == 0 ? ir::constant(1) : -ir::expm1(step * std::log(b)); }

Value bias_correction(Value b, Value step) { return -ir::expm1(step * ir::log(b)); }

Value moving_mean(Value mean, Value x, double b) { return mean * b + x * (1 - b); }
Value moving_mean(Value mean, Value x, Value b) { return mean * b + x * (1.0 - b); }

Value first_update(const UpdateContext& c) { return ir::compare(ir::Compare::kLt, c.step, ir::constant(1.5)); }

void check_share(const config::Section& section, const char* key, double value) {
  if (!(value >= 0 && value < 1)) section.fail(key, fmt::format("must lie in [0, 1), and is {}", value));
}

void check_positive(const config::Section& section, const char* key, double value) {
  if (!(value > 0)) section.fail(key, fmt::format("must be above 0, and is {}", value));
}

}  // namespace tessera::optim
