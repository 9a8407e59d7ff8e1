// AdaBelief as timm computes it (Zhuang et al. 2020): Adam whose second moment is that of the gradient's difference from mu.
//   mu <- b1 mu + (1 - b1) g      nu <- b2 nu + (1 - b2) (g - mu)^2 + eps
//   value <- value - lr / (1 - b1^t) * mu / (sqrt(nu / (1 - b2^t)) + eps)
// With `rectify` the step is RAdam's where rho >= 5, lr r sqrt(1 - b2^t) / (1 - b1^t) * mu / (sqrt(nu) + eps), and else that
// of SGD, lr / (1 - b1^t) * mu.

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/update_rule.h"
#include "optim/updates/rectify.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct AdaBeliefOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-16;
  bool rectify = false;
  std::string decoupled = "lr";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the mean gradient");
    field("b2", b2, "decay of the squared difference from it");
    field("eps", eps, "added to that square, and to its root");
    field("rectify", rectify, "RAdam's rectification");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class AdaBelief final : public UpdateRule {
 public:
  AdaBelief(AdaBeliefOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    return {{"mu", param.block_dims(), true}, {"nu", param.block_dims()}};
  }
  Update update(const Param&, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    const auto& [b1, b2, eps, rectified, unused] = options_;
    grad = penalize(grad, value, c);
    const Value mu = moving_mean(slots[0], grad, b1);
    const Value nu = moving_mean(slots[1], ir::square(grad - mu), b2) + eps;
    const Value correction = ir::sqrt(bias_correction(b2, c.step));
    Value scale = 1.0 / (ir::sqrt(nu) / correction + eps);
    if (rectified) {
      const Rectification r = rectify(b2, c.step);
      const Value known = ir::compare(ir::Compare::kGe, r.length, ir::constant(5));
      scale = ir::select(known, r.scale * correction / (ir::sqrt(nu) + eps), ir::ones_like(nu));
    }
    return {shrink(value, c) - mu * (c.lr / bias_correction(b1, c.step)) * scale, {mu, nu}};
  }

 private:
  AdaBeliefOptions options_;
};

std::unique_ptr<UpdateRule> make_adabelief(config::Section section) {
  AdaBeliefOptions options;
  section.bind(options);
  check_share(section, "b1", options.b1);
  check_share(section, "b2", options.b2);
  check_positive(section, "b2", options.b2);
  check_positive(section, "eps", options.eps);
  return std::make_unique<AdaBelief>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kAdabelief = {"adabelief", "Adam by the gradient's difference from its mean, as timm", make_adabelief,
                                  config::keys_of<AdaBeliefOptions>};

}  // namespace tessera::optim
