// MADGRAD as timm and its authors compute it (Defazio, Jelassi 2021), from the value x0 before the first update:
//   l = (lr + eps) sqrt(t)      nu <- nu + l g^2      sum <- sum + l g      z = x0 - sum / (cbrt(nu) + eps)
//   value <- momentum value + (1 - momentum) z
// Without momentum x0 isn't kept: it is value + sum / (cbrt(nu) + eps) of before.

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct MadgradOptions {
  double momentum = 0.9;
  double eps = 1e-6;
  std::string decoupled = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("momentum", momentum, "weight of the value before in the new one");
    field("eps", eps, "added to lr and to the cube root");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class Madgrad final : public UpdateRule {
 public:
  Madgrad(MadgradOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    std::vector<Slot> slots = {{"nu", param.block_dims()}, {"sum", param.block_dims()}};
    if (options_.momentum > 0) slots.push_back({"x0", param.block_dims()});
    return slots;
  }
  Update update(const Param&, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    const double eps = options_.eps, momentum = options_.momentum;
    const Value rate = (c.lr + eps) * ir::sqrt(c.step);
    grad = penalize(grad, value, c);
    const Value shrunk = shrink(value, c);
    const Value nu = slots[0] + rate * ir::square(grad), sum = slots[1] + rate * grad;
    if (momentum == 0) {
      const Value x0 = shrunk + slots[1] / (ir::cbrt(slots[0]) + eps);
      return {x0 - sum / (ir::cbrt(nu) + eps), {nu, sum}};
    }
    const Value x0 = ir::select(first_update(c), value, slots[2]);
    return {moving_mean(shrunk, x0 - sum / (ir::cbrt(nu) + eps), momentum), {nu, sum, x0}};
  }

 private:
  MadgradOptions options_;
};

std::unique_ptr<UpdateRule> make_madgrad(config::Section section) {
  MadgradOptions options;
  section.bind(options);
  check_share(section, "momentum", options.momentum);
  check_positive(section, "eps", options.eps);
  return std::make_unique<Madgrad>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kMadgrad = {"madgrad", "dual averaging with momentum, as timm", make_madgrad,
                                config::keys_of<MadgradOptions>};

}  // namespace tessera::optim
