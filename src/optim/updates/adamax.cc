// Adamax as torch computes it (Kingma and Ba 2014): Adam whose second moment is a maximum.
//   mu <- b1 mu + (1 - b1) g      nu <- max(b2 nu, |g| + eps)      value <- value - lr / (1 - b1^t) * mu / nu

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct AdamaxOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  std::string decoupled = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the mean gradient");
    field("b2", b2, "decay of the largest gradient");
    field("eps", eps, "added to each gradient's size");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class Adamax final : public UpdateRule {
 public:
  Adamax(AdamaxOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    return {{"mu", param.block_dims(), true}, {"nu", param.block_dims()}};
  }
  Update update(const Param&, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    const Value mu = moving_mean(slots[0], grad, options_.b1);
    const Value nu = ir::maximum(slots[1] * options_.b2, ir::abs(grad) + options_.eps);
    return {shrink(value, c) - c.lr / bias_correction(options_.b1, c.step) * (mu / nu), {mu, nu}};
  }

 private:
  AdamaxOptions options_;
};

std::unique_ptr<UpdateRule> make_adamax(config::Section section) {
  AdamaxOptions options;
  section.bind(options);
  check_share(section, "b1", options.b1);
  check_positive(section, "b1", options.b1);
  check_share(section, "b2", options.b2);
  check_positive(section, "eps", options.eps);
  return std::make_unique<Adamax>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kAdamax = {"adamax", "Adam by the largest gradient, as torch", make_adamax, config::keys_of<AdamaxOptions>};

}  // namespace tessera::optim
