// RMSprop as TensorFlow 1 and timm's RMSpropTF compute it: eps inside the root, the mean square from 1, the rate inside the
// momentum.
//   nu <- alpha nu + (1 - alpha) g^2, nu(0) = 1      centered: mean <- alpha mean + (1 - alpha) g, nu - mean^2 for nu below
//   trace <- momentum trace + lr g / sqrt(nu + eps)      value <- value - trace
// lr_in_momentum = false leaves lr out of the trace and scales the step by it.

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct RmspropTfOptions {
  double alpha = 0.9;
  double eps = 1e-10;
  double momentum = 0.9;
  bool centered = false;
  bool lr_in_momentum = true;
  std::string decoupled = "none";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("alpha", alpha, "decay of the mean square");
    field("eps", eps, "added to the mean square");
    field("momentum", momentum, "decay of the running sum of steps; 0 for none");
    field("centered", centered, "divide by the deviation instead of the mean square's root");
    field("lr_in_momentum", lr_in_momentum, "the running sum holds steps already scaled by lr");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign");
  }
};

class RmspropTf final : public UpdateRule {
 public:
  RmspropTf(RmspropTfOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    std::vector<Slot> slots = {{"nu", param.block_dims()}};
    if (options_.momentum > 0) slots.push_back({"trace", param.block_dims(), true});
    if (options_.centered) slots.push_back({"mean", param.block_dims()});
    return slots;
  }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    value = shrink(value, c);
    const Value before = ir::select(first_update(c), ir::ones_like(slots[0]), slots[0]);
    ir::Values kept = {moving_mean(before, ir::square(grad), options_.alpha)};
    Value spread = kept[0];
    Value mean;
    if (options_.centered) {
      mean = moving_mean(slots.back(), grad, options_.alpha);
      spread = spread - ir::square(mean);
    }
    Value step = grad / ir::sqrt(spread + options_.eps);
    if (options_.momentum > 0) {
      step = slots[1] * options_.momentum + (options_.lr_in_momentum ? c.lr * step : step);
      kept.push_back(step);
      if (options_.caution) step = cautious(param, step, grad);
    }
    if (options_.centered) kept.push_back(mean);
    return {value - (options_.momentum > 0 && options_.lr_in_momentum ? step : c.lr * step), kept};
  }

 private:
  RmspropTfOptions options_;
};

std::unique_ptr<UpdateRule> make_rmsprop_tf(config::Section section) {
  RmspropTfOptions options;
  section.bind(options);
  check_share(section, "alpha", options.alpha);
  check_share(section, "momentum", options.momentum);
  check_positive(section, "eps", options.eps);
  return std::make_unique<RmspropTf>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kRmspropTf = {"rmsprop_tf", "RMSprop as TensorFlow computes it, as timm", make_rmsprop_tf,
                                  config::keys_of<RmspropTfOptions>};

}  // namespace tessera::optim
