// Adam and AdamW as torch.optim computes them:
//   mu <- b1 mu + (1 - b1) g      nu <- b2 nu + (1 - b2) g^2
//   value <- value - lr / (1 - b1^t) * mu / (sqrt(nu / (1 - b2^t)) + eps)
// Adam adds weight_decay * value to g first (L2); AdamW shrinks the value first. With `nesterov`, b1 mu + (1 - b1) g of the new
// mu stands in its place (timm's NAdamW). With `amsgrad`, the largest nu so far stands in the place of nu. A schedule that
// cycles momentum moves b1, and b1^t is then taken as it is at t.

#include "optim/updates/adam.h"

#include <fmt/format.h>

#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::optim {
namespace {

using ir::Value;

std::unique_ptr<UpdateRule> make_adam_like(config::Section section, AdamOptions options) {
  section.bind(options);
  options.check(section);
  return std::make_unique<Adam>(options, parse_decay(section, options.decoupled));
}

}  // namespace

std::vector<Slot> Adam::slots(const Param& param) const {
  std::vector<Slot> slots = {{"mu", param.block_dims(), true}, {"nu", param.block_dims()}};
  if (options_.amsgrad) slots.push_back({"nu_max", param.block_dims()});
  return slots;
}

template <class Share>
Update Adam::updated(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c,
                     const Share& b1) const {
  grad = penalize(grad, value, c);
  const Value mu = moving_mean(slots[0], grad, b1);
  const Value nu = moving_mean(slots[1], ir::square(grad), options_.b2);
  ir::Values kept = {mu, nu};
  if (options_.amsgrad) kept.push_back(ir::maximum(slots[2], nu));
  const Value rate = c.lr / bias_correction(b1, c.step);
  const Value scale = ir::rsqrt(bias_correction(options_.b2, c.step));
  Value ahead = options_.nesterov ? moving_mean(mu, grad, b1) : mu;
  if (options_.caution) ahead = cautious(param, ahead, grad);
  return {shrink(value, c) - rate * (ahead / (ir::sqrt(kept.back()) * scale + options_.eps)), kept};
}

Update Adam::update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const {
  return c.momentum ? updated(param, value, grad, slots, c, c.momentum) : updated(param, value, grad, slots, c, options_.b1);
}

namespace {

AdamOptions adam_defaults() { return {.decoupled = "none"}; }
AdamOptions nadamw_defaults() { return {.nesterov = true}; }

std::unique_ptr<UpdateRule> make_adam(config::Section section) { return make_adam_like(std::move(section), adam_defaults()); }
std::unique_ptr<UpdateRule> make_adamw(config::Section section) { return make_adam_like(std::move(section), {}); }
std::unique_ptr<UpdateRule> make_nadamw(config::Section section) {
  return make_adam_like(std::move(section), nadamw_defaults());
}

std::vector<config::KeyDoc> adam_keys(const std::string& prefix) { return config::describe(adam_defaults(), prefix); }
std::vector<config::KeyDoc> nadamw_keys(const std::string& prefix) { return config::describe(nadamw_defaults(), prefix); }

}  // namespace

const OptimizerKind kAdamw = {"adamw", "Adam with decoupled weight decay, as torch", make_adamw, config::keys_of<AdamOptions>};
const OptimizerKind kAdam = {"adam", "Adam, as torch", make_adam, adam_keys};
const OptimizerKind kNadamw = {"nadamw", "AdamW that looks a step ahead, as timm", make_nadamw, nadamw_keys};

}  // namespace tessera::optim
