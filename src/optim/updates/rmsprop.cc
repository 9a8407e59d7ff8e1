// RMSprop as torch computes it (Tieleman and Hinton 2012): eps outside the root, the mean square from 0.
//   nu <- alpha nu + (1 - alpha) g^2      centered: mean <- alpha mean + (1 - alpha) g, nu - mean^2 for nu below
//   step = g / (sqrt(nu) + eps)      trace <- momentum trace + step, in place of step      value <- value - lr step

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct RmspropOptions {
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  bool centered = false;
  std::string decoupled = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("alpha", alpha, "decay of the mean square");
    field("eps", eps, "added to its root");
    field("momentum", momentum, "decay of the running sum of steps; 0 for none");
    field("centered", centered, "divide by the deviation instead of the mean square's root");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class Rmsprop final : public UpdateRule {
 public:
  Rmsprop(RmspropOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    std::vector<Slot> slots = {{"nu", param.block_dims()}};
    if (options_.momentum > 0) slots.push_back({"trace", param.block_dims(), true});
    if (options_.centered) slots.push_back({"mean", param.block_dims()});
    return slots;
  }
  Update update(const Param&, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    ir::Values kept = {moving_mean(slots[0], ir::square(grad), options_.alpha)};
    Value spread = kept[0];
    Value mean;
    if (options_.centered) {
      mean = moving_mean(slots.back(), grad, options_.alpha);
      // Rounding must not take it below 0, where all gradients were the same.
      spread = ir::maximum(spread - ir::square(mean), ir::zeros_like(spread));
    }
    Value step = grad / (ir::sqrt(spread) + options_.eps);
    if (options_.momentum > 0) {
      step = slots[1] * options_.momentum + step;
      kept.push_back(step);
    }
    if (options_.centered) kept.push_back(mean);
    return {shrink(value, c) - c.lr * step, kept};
  }

 private:
  RmspropOptions options_;
};

std::unique_ptr<UpdateRule> make_rmsprop(config::Section section) {
  RmspropOptions options;
  section.bind(options);
  check_share(section, "alpha", options.alpha);
  check_share(section, "momentum", options.momentum);
  check_positive(section, "eps", options.eps);
  return std::make_unique<Rmsprop>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kRmsprop = {"rmsprop", "gradients over their root mean square, as torch", make_rmsprop,
                                config::keys_of<RmspropOptions>};

}  // namespace tessera::optim
