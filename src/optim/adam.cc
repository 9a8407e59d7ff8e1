// Adam and AdamW as torch.optim computes them:
//   mu <- b1 mu + (1 - b1) g      nu <- b2 nu + (1 - b2) g^2
//   value <- value - lr / (1 - b1^t) * mu / (sqrt(nu / (1 - b2^t)) + eps)
// Adam adds weight_decay * value to g first (L2); AdamW shrinks the value first. With `nesterov`, b1 mu + (1 - b1) g of the new
// mu stands in its place (timm's NAdamW).

#include "optim/adam.h"

#include <fmt/format.h>

#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::optim {
namespace {

using ir::Value;

std::unique_ptr<UpdateRule> make(config::Section section, AdamOptions options) {
  section.bind(options);
  options.check(section);
  return std::make_unique<Adam>(options, parse_decay(section, options.decoupled));
}

}  // namespace

void AdamOptions::check(const config::Section& section) const {
  check_share(section, "b1", b1);
  check_share(section, "b2", b2);
  check_positive(section, "eps", eps);
}

std::vector<Slot> Adam::slots(const Param& param) const {
  return {{"mu", param.block_dims(), true}, {"nu", param.block_dims()}};
}

Update Adam::update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const {
  grad = penalize(grad, value, c);
  const Value mu = moving_mean(slots[0], grad, options_.b1);
  const Value nu = moving_mean(slots[1], ir::square(grad), options_.b2);
  const Value rate = c.lr / bias_correction(options_.b1, c.step);
  const Value scale = ir::rsqrt(bias_correction(options_.b2, c.step));
  Value ahead = options_.nesterov ? moving_mean(mu, grad, options_.b1) : mu;
  if (options_.caution) ahead = cautious(param, ahead, grad);
  return {shrink(value, c) - rate * (ahead / (ir::sqrt(nu) * scale + options_.eps)), {mu, nu}};
}

std::unique_ptr<UpdateRule> make_adam(config::Section section) { return make(std::move(section), {.decoupled = "none"}); }
std::unique_ptr<UpdateRule> make_adamw(config::Section section) { return make(std::move(section), {}); }
std::unique_ptr<UpdateRule> make_nadamw(config::Section section) { return make(std::move(section), {.nesterov = true}); }

}  // namespace tessera::optim
