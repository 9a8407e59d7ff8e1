// Stochastic gradient descent as torch.optim.SGD computes it (dampening 0):
//   g <- g + weight_decay value      trace <- momentum trace + g      value <- value - lr (nesterov ? g + momentum trace :
//   trace)

#include <fmt/format.h>

#include "ir/ops.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = true;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("momentum", momentum, "decay of the running sum of gradients; 0 for none");
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
  }
};

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(SgdOptions options) : options_(options) {}
  std::vector<Slot> slots() const override {
    return options_.momentum > 0 ? std::vector<Slot>{{"trace", true}} : std::vector<Slot>{};
  }
  Update update(Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    if (c.weight_decay != 0) grad = grad + value * c.weight_decay;
    if (slots.empty()) return {value - c.lr * grad, {}};
    const Value trace = slots[0] * options_.momentum + grad;
    return {value - c.lr * (options_.nesterov ? grad + trace * options_.momentum : trace), {trace}};
  }

 private:
  SgdOptions options_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_sgd(config::Section section) {
  SgdOptions options;
  section.bind(options);
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    section.fail("momentum", fmt::format("must lie in [0, 1), and is {}", options.momentum));
  }
  return std::make_unique<Sgd>(options);
}

}  // namespace tessera::optim
