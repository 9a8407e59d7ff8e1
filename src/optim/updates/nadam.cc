// NAdam as torch.optim.NAdam computes it (Dozat 2016):
//   m(t) = b1 (1 - 0.96^(t momentum_decay) / 2)      product <- product m(t)
//   mu, nu as Adam's      d = sqrt(nu / (1 - b2^t)) + eps
//   value <- value - lr (1 - m(t)) / (1 - product) g / d - lr m(t + 1) / (1 - product m(t + 1)) mu / d

#include <cmath>

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/moments.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct NAdamOptions : MomentOptions {
  double momentum_decay = 4e-3;
  std::string decoupled = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    MomentOptions::visit(field);
    field("momentum_decay", momentum_decay, "how fast momentum rises from half to all of b1");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class NAdam final : public UpdateRule {
 public:
  NAdam(NAdamOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    return {
        {"mu", param.block_dims(), true}, {"nu", param.block_dims()}, {"product", Dims(static_cast<size_t>(param.rank()), 1)}};
  }
  Update update(const Param&, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    const Value mu = moving_mean(slots[0], grad, options_.b1);
    const Value nu = moving_mean(slots[1], ir::square(grad), options_.b2);
    const Value now = momentum(c.step), next = momentum(c.step + 1.0);
    const Value product = ir::select(first_update(c), ir::ones_like(slots[2]), slots[2]) * now;
    const Value scale = 1.0 / (ir::sqrt(nu / bias_correction(options_.b2, c.step)) + options_.eps);
    const Value by_grad = c.lr * (1.0 - now) / (1.0 - product), by_mean = c.lr * next / (1.0 - product * next);
    return {shrink(value, c) - (by_grad * grad + by_mean * mu) * scale, {mu, nu, product}};
  }

 private:
  Value momentum(Value step) const {
    return options_.b1 * (1.0 - 0.5 * ir::exp(step * (options_.momentum_decay * std::log(0.96))));
  }
  NAdamOptions options_;
};

std::unique_ptr<UpdateRule> make_nadam(config::Section section) {
  NAdamOptions options;
  section.bind(options);
  options.check(section);
  return std::make_unique<NAdam>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kNadam = {"nadam", "Adam with scheduled Nesterov momentum, as torch", make_nadam,
                              config::keys_of<NAdamOptions>};

}  // namespace tessera::optim
