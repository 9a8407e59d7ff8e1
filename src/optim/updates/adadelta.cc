// Adadelta as torch computes it (Zeiler 2012): steps in units of the value's own.
//   nu <- rho nu + (1 - rho) g^2      step = g sqrt(delta + eps) / sqrt(nu + eps)      delta <- rho delta + (1 - rho) step^2
//   value <- value - lr step

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct AdadeltaOptions {
  double rho = 0.9;
  double eps = 1e-6;
  std::string decoupled = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("rho", rho, "decay of the mean squares of gradients and steps");
    field("eps", eps, "added to both");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class Adadelta final : public UpdateRule {
 public:
  Adadelta(AdadeltaOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    return {{"nu", param.block_dims()}, {"delta", param.block_dims()}};
  }
  Update update(const Param&, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    const double eps = options_.eps;
    grad = penalize(grad, value, c);
    const Value nu = moving_mean(slots[0], ir::square(grad), options_.rho);
    const Value step = ir::sqrt(slots[1] + eps) / ir::sqrt(nu + eps) * grad;
    return {shrink(value, c) - c.lr * step, {nu, moving_mean(slots[1], ir::square(step), options_.rho)}};
  }

 private:
  AdadeltaOptions options_;
};

std::unique_ptr<UpdateRule> make_adadelta(config::Section section) {
  AdadeltaOptions options;
  section.bind(options);
  check_share(section, "rho", options.rho);
  check_positive(section, "eps", options.eps);
  return std::make_unique<Adadelta>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kAdadelta = {"adadelta", "steps in units of the weights' own, as torch", make_adadelta,
                                 config::keys_of<AdadeltaOptions>};

}  // namespace tessera::optim
