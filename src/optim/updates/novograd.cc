// NovoGrad as timm's NvNovoGrad and NVIDIA compute it (Ginsburg et al. 2019), a second moment for each parameter:
//   nu <- b2 nu + (1 - b2) |g|^2, at first |g|^2      u = g / (sqrt(nu) + eps) + weight_decay value
//   mu <- b1 mu + u      value <- value - lr mu      (grad_averaging: mu <- b1 mu + (1 - b1) u)

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct NovogradOptions {
  double b1 = 0.95;
  double b2 = 0.98;
  double eps = 1e-8;
  bool grad_averaging = false;
  std::string decoupled = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the first moment");
    field("b2", b2, "decay of the squared norm");
    field("eps", eps, "added to the norm");
    field("grad_averaging", grad_averaging, "weigh new gradients with 1 - b1");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

class Novograd final : public UpdateRule {
 public:
  Novograd(NovogradOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    return {{"mu", param.block_dims(), true}, {"nu", Dims(static_cast<size_t>(param.rank()), 1)}};
  }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    const Value square = block_sum(param, ir::square(grad));
    const Value unset = ir::compare(ir::Compare::kEq, slots[1], ir::zeros_like(slots[1]));
    const Value nu = ir::select(unset, square, moving_mean(slots[1], square, options_.b2));
    Value step = penalize(grad / (ir::sqrt(nu) + options_.eps), value, c);
    if (options_.grad_averaging) step = step * (1 - options_.b1);
    const Value mu = slots[0] * options_.b1 + step;
    return {shrink(value, c) - c.lr * mu, {mu, nu}};
  }

 private:
  NovogradOptions options_;
};

std::unique_ptr<UpdateRule> make_novograd(config::Section section) {
  NovogradOptions options;
  section.bind(options);
  check_share(section, "b1", options.b1);
  check_share(section, "b2", options.b2);
  check_positive(section, "eps", options.eps);
  return std::make_unique<Novograd>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kNovograd = {"novograd", "gradients over their layer's norm, as timm and NVIDIA", make_novograd,
                                 config::keys_of<NovogradOptions>};

}  // namespace tessera::optim
