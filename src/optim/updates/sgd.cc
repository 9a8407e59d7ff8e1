// Stochastic gradient descent as torch.optim.SGD computes it (dampening 0):
//   g <- g + weight_decay value      trace <- momentum trace + g
//   value <- value - lr (nesterov ? g + momentum trace : trace)
// With decoupled weight decay it is timm's SGDW.

#include <fmt/format.h>

#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = true;
  std::string decoupled = "none";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("momentum", momentum, "decay of the running sum of gradients; 0 for none");
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign");
  }
};

class Sgd final : public UpdateRule {
 public:
  Sgd(SgdOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    return options_.momentum > 0 ? std::vector<Slot>{{"trace", param.block_dims(), true}} : std::vector<Slot>{};
  }
  bool cycles_momentum() const override { return options_.momentum > 0; }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    value = shrink(value, c);
    if (slots.empty()) return {value - c.lr * grad, {}};
    const auto damped = [&](Value x) { return c.momentum ? x * c.momentum : x * options_.momentum; };
    const Value trace = damped(slots[0]) + grad;
    Value step = options_.nesterov ? grad + damped(trace) : trace;
    if (options_.caution) step = cautious(param, step, grad);
    return {value - c.lr * step, {trace}};
  }

 private:
  SgdOptions options_;
};

std::unique_ptr<UpdateRule> make_sgd(config::Section section) {
  SgdOptions options;
  section.bind(options);
  check_share(section, "momentum", options.momentum);
  return std::make_unique<Sgd>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kSgd = {"sgd", "stochastic gradient descent with Nesterov momentum, as torch", make_sgd,
                            config::keys_of<SgdOptions>};

}  // namespace tessera::optim
