// RAdam as torch.optim.RAdam computes it (Liu et al. 2019): with the rectification r of rectify.h and mu, nu as Adam's,
//   value <- value - lr mu / (1 - b1^t) * (rho > 5 ? r sqrt(1 - b2^t) / (sqrt(nu) + eps) : 1)

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/moments.h"
#include "optim/update_rule.h"
#include "optim/updates/rectify.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct RAdamOptions : MomentOptions {
  std::string decoupled = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    MomentOptions::visit(field);
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class RAdam final : public UpdateRule {
 public:
  RAdam(RAdamOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    return {{"mu", param.block_dims(), true}, {"nu", param.block_dims()}};
  }
  Update update(const Param&, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    const Value mu = moving_mean(slots[0], grad, options_.b1);
    const Value nu = moving_mean(slots[1], ir::square(grad), options_.b2);
    const Rectification r = rectify(options_.b2, c.step);
    const Value adaptive = r.scale * ir::sqrt(bias_correction(options_.b2, c.step)) / (ir::sqrt(nu) + options_.eps);
    const Value known = ir::compare(ir::Compare::kGt, r.length, ir::constant(5));
    const Value step = mu * (c.lr / bias_correction(options_.b1, c.step)) * ir::select(known, adaptive, ir::ones_like(nu));
    return {shrink(value, c) - step, {mu, nu}};
  }

 private:
  RAdamOptions options_;
};

std::unique_ptr<UpdateRule> make_radam(config::Section section) {
  RAdamOptions options;
  section.bind(options);
  options.check(section);
  check_positive(section, "b2", options.b2);
  return std::make_unique<RAdam>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kRadam = {"radam", "Adam whose rate waits for the variance to be known, as torch", make_radam,
                              config::keys_of<RAdamOptions>};

}  // namespace tessera::optim
