// Adagrad as torch computes it (Duchi et al. 2011), for dense gradients:
//   nu <- nu + g^2, nu(0) = initial      value <- value - lr / (1 + (t - 1) lr_decay) * g / (sqrt(nu) + eps)

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct AdagradOptions {
  double lr_decay = 0;
  double initial = 0;
  double eps = 1e-10;
  std::string decoupled = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("lr_decay", lr_decay, "the rate falls as 1 / (1 + lr_decay x updates before), besides its schedule");
    field("initial", initial, "what the sum of squares begins with");
    field("eps", eps, "added to the sum's root");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class Adagrad final : public UpdateRule {
 public:
  Adagrad(AdagradOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override { return {{"nu", param.block_dims()}}; }
  Update update(const Param&, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    Value before = slots[0];
    if (options_.initial > 0) before = ir::select(first_update(c), ir::ones_like(before) * options_.initial, before);
    const Value nu = before + ir::square(grad);
    Value lr = c.lr;
    if (options_.lr_decay > 0) lr = lr / ((c.step - 1.0) * options_.lr_decay + 1.0);
    return {shrink(value, c) - lr * (grad / (ir::sqrt(nu) + options_.eps)), {nu}};
  }

 private:
  AdagradOptions options_;
};

std::unique_ptr<UpdateRule> make_adagrad(config::Section section) {
  AdagradOptions options;
  section.bind(options);
  if (!(options.lr_decay >= 0)) section.fail("lr_decay", "must not be negative");
  if (!(options.initial >= 0)) section.fail("initial", "must not be negative");
  check_positive(section, "eps", options.eps);
  return std::make_unique<Adagrad>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kAdagrad = {"adagrad", "gradients over the root of all squares so far, as torch", make_adagrad,
                                config::keys_of<AdagradOptions>};

}  // namespace tessera::optim
