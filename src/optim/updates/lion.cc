// Lion as timm and optax compute it (Chen et al. 2023):
//   value <- value - lr sign(b1 mu + (1 - b1) g)      mu <- b2 mu + (1 - b2) g

#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct LionOptions {
  double b1 = 0.9;
  double b2 = 0.99;
  std::string decoupled = "lr";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "weight of the moving mean in the update");
    field("b2", b2, "decay of the moving mean");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign");
  }
};

class Lion final : public UpdateRule {
 public:
  Lion(LionOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override { return {{"mu", param.block_dims(), true}}; }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    Value step = ir::sign(moving_mean(slots[0], grad, options_.b1));
    if (options_.caution) step = cautious(param, step, grad);
    return {shrink(value, c) - c.lr * step, {moving_mean(slots[0], grad, options_.b2)}};
  }

 private:
  LionOptions options_;
};

std::unique_ptr<UpdateRule> make_lion(config::Section section) {
  LionOptions options;
  section.bind(options);
  check_share(section, "b1", options.b1);
  check_share(section, "b2", options.b2);
  return std::make_unique<Lion>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kLion = {"lion", "the sign of a moving mean, as timm and optax", make_lion, config::keys_of<LionOptions>};

}  // namespace tessera::optim
