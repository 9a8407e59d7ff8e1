// Adam and AdamW as torch.optim computes them:
//   mu <- b1 mu + (1 - b1) g      nu <- b2 nu + (1 - b2) g^2
//   value <- value - lr / (1 - b1^t) * mu / (sqrt(nu / (1 - b2^t)) + eps)
// Adam adds weight_decay * value to g first (L2); AdamW shrinks the value first, by lr * weight_decay or, as big_vision does,
// by the schedule without the base rate.

#include <fmt/format.h>

#include <cmath>

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct AdamOptions {
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the first moment");
    field("b2", b2, "decay of the second moment");
    field("eps", eps, "added to the root of the second moment");
  }
  void check(const config::Section& section) const {
    if (!(b1 >= 0 && b1 < 1)) section.fail("b1", fmt::format("must lie in [0, 1), and is {}", b1));
    if (!(b2 >= 0 && b2 < 1)) section.fail("b2", fmt::format("must lie in [0, 1), and is {}", b2));
    if (!(eps > 0)) section.fail("eps", fmt::format("must be above 0, and is {}", eps));
  }
};

struct AdamWOptions : AdamOptions {
  std::string decoupled = "lr";
  template <class Visitor>
  void visit(Visitor&& field) {
    AdamOptions::visit(field);
    field("decoupled", decoupled,
          "what scales the weight decay: \"lr\" (torch) or \"schedule\" (big_vision: without the base rate)");
  }
};

// 1 - b^t: by expm1, since b^t in f32 leaves few digits when b is near 1.
Value bias_correction(double b, Value step) { return b == 0 ? ir::constant(1) : -ir::expm1(step * std::log(b)); }

class Adam : public UpdateRule {
 public:
  explicit Adam(AdamOptions options) : options_(options) {}
  std::vector<Slot> slots() const override { return {{"mu", true}, {"nu"}}; }
  Update update(Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    if (c.weight_decay != 0) grad = grad + value * c.weight_decay;
    return step(value, grad, slots, c);
  }

 protected:
  Update step(Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const {
    const auto& [b1, b2, eps] = options_;
    const Value mu = slots[0] * b1 + grad * (1 - b1);
    const Value nu = slots[1] * b2 + ir::square(grad) * (1 - b2);
    const Value rate = c.lr / bias_correction(b1, c.step);
    const Value scale = ir::rsqrt(bias_correction(b2, c.step));
    return {value - rate * (mu / (ir::sqrt(nu) * scale + eps)), {mu, nu}};
  }

 private:
  AdamOptions options_;
};

class AdamW final : public Adam {
 public:
  AdamW(AdamOptions options, bool by_schedule) : Adam(options), by_schedule_(by_schedule) {}
  Update update(Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    if (c.weight_decay != 0) value = value * (1.0 - (by_schedule_ ? c.schedule : c.lr) * c.weight_decay);
    return step(value, grad, slots, c);
  }

 private:
  bool by_schedule_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_adam(config::Section section) {
  AdamOptions options;
  section.bind(options);
  options.check(section);
  return std::make_unique<Adam>(options);
}

std::unique_ptr<UpdateRule> make_adamw(config::Section section) {
  AdamWOptions options;
  section.bind(options);
  options.check(section);
  if (options.decoupled != "lr" && options.decoupled != "schedule") {
    section.fail("decoupled", fmt::format("must be \"lr\" or \"schedule\", and is \"{}\"", options.decoupled));
  }
  return std::make_unique<AdamW>(options, options.decoupled == "schedule");
}

}  // namespace tessera::optim
