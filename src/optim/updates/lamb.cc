// LAMB as timm and NVIDIA's FusedLAMB compute it (You et al. 2019). All gradients over max(1, |all of them| / max_norm), then
// mu and nu as Adam's and
//   u = mu / (1 - b1^t) / (sqrt(nu / (1 - b2^t)) + eps) + weight_decay value
//   value <- value - lr ratio u      ratio = |value| / |u|, 1 where a norm is 0; LAMBC: at most 1
// Parameters that don't decay have ratio 1 (unless always_adapt). Decoupled weight decay shrinks the value before all that.

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/moments.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct LambOptions : MomentOptions {
  LambOptions() { eps = 1e-6; }
  double max_norm = 1;
  bool grad_averaging = true;
  bool trust_clip = false;
  bool always_adapt = false;
  std::string decoupled = "none";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    MomentOptions::visit(field);
    field("max_norm", max_norm, "what the norm of all gradients is clipped to, after `clip`; 0 for no limit");
    field("grad_averaging", grad_averaging, "weigh new gradients with 1 - b1");
    field("trust_clip", trust_clip, "the trust ratio is at most 1 (LAMBC)");
    field("always_adapt", always_adapt, "a trust ratio for parameters that don't decay too");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign");
  }
};

class Lamb final : public UpdateRule {
 public:
  Lamb(LambOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    return {{"mu", param.block_dims(), true}, {"nu", param.block_dims()}};
  }
  ir::Values prepare(const ir::Values& grads) const override {
    if (options_.max_norm == 0) return grads;
    const Value scale = 1.0 / ir::maximum(ir::global_norm(grads) / options_.max_norm, ir::constant(1));
    ir::Values scaled;
    for (const Value grad : grads) scaled.push_back(grad * scale);
    return scaled;
  }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    const Value mu = slots[0] * options_.b1 + grad * (options_.grad_averaging ? 1 - options_.b1 : 1.0);
    const Value nu = moving_mean(slots[1], ir::square(grad), options_.b2);
    const Value root = ir::sqrt(nu) * ir::rsqrt(bias_correction(options_.b2, c.step));
    Value step = mu / bias_correction(options_.b1, c.step) / (root + options_.eps);
    if (options_.caution) step = cautious(param, step, grad);
    value = shrink(value, c);
    step = penalize(step, value, c);
    if (c.weight_decay != 0 || options_.always_adapt) {
      step = step * trust_ratio(block_norm(param, value), block_norm(param, step));
    }
    return {value - c.lr * step, {mu, nu}};
  }

 private:
  Value trust_ratio(Value value, Value step) const {
    const Value zero = ir::zeros_like(value), one = ir::ones_like(value);
    const Value ratio =
        ir::select(ir::logical_and(ir::compare(ir::Compare::kGt, value, zero), ir::compare(ir::Compare::kGt, step, zero)),
                   value / step, one);
    return options_.trust_clip ? ir::minimum(ratio, one) : ratio;
  }
  LambOptions options_;
};

std::unique_ptr<UpdateRule> make_lamb_or_lambc(config::Section section, LambOptions options) {
  section.bind(options);
  options.check(section);
  if (options.max_norm != 0) check_positive(section, "max_norm", options.max_norm);
  return std::make_unique<Lamb>(options, parse_decay(section, options.decoupled));
}

LambOptions lambc_defaults() {
  LambOptions options;
  options.trust_clip = true;
  return options;
}

std::unique_ptr<UpdateRule> make_lamb(config::Section section) { return make_lamb_or_lambc(std::move(section), {}); }
std::unique_ptr<UpdateRule> make_lambc(config::Section section) {
  return make_lamb_or_lambc(std::move(section), lambc_defaults());
}

std::vector<config::KeyDoc> lambc_keys(const std::string& prefix) { return config::describe(lambc_defaults(), prefix); }

}  // namespace

const OptimizerKind kLamb = {"lamb", "Adam with a rate for each layer, as timm and NVIDIA", make_lamb,
                             config::keys_of<LambOptions>};
const OptimizerKind kLambc = {"lambc", "LAMB whose trust ratio is at most 1, as timm", make_lambc, lambc_keys};

}  // namespace tessera::optim
