// LARS and LARC as timm computes them (You et al. 2017). For each parameter that decays (or all, with always_adapt), with L2
// norms of the value and the gradient:
//   ratio = trust |value| / (|g| + weight_decay |value| + eps), 1 where a norm is 0; LARC: min(ratio / lr, 1)
//   g <- ratio (g + weight_decay value)      then SGD's momentum and step

#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct LarsOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double trust = 0.001;
  double eps = 1e-8;
  bool trust_clip = false;
  bool always_adapt = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("momentum", momentum, "decay of the running sum of gradients; 0 for none");
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
    field("trust", trust, "the trust coefficient");
    field("eps", eps, "added to the norm of the gradient");
    field("trust_clip", trust_clip, "rates are at most lr (LARC)");
    field("always_adapt", always_adapt, "adapt the rate of parameters that don't decay too");
  }
};

class Lars final : public UpdateRule {
 public:
  explicit Lars(LarsOptions options) : UpdateRule(Decay::kNone), options_(options) {}
  std::vector<Slot> slots(const Param& param) const override {
    return options_.momentum > 0 ? std::vector<Slot>{{"trace", param.block_dims(), true}} : std::vector<Slot>{};
  }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    if (c.weight_decay != 0 || options_.always_adapt) {
      grad = penalize(grad, value, c) * trust_ratio(block_norm(param, value), block_norm(param, grad), c);
    }
    if (slots.empty()) return {value - c.lr * grad, {}};
    const Value trace = slots[0] * options_.momentum + grad;
    return {value - c.lr * (options_.nesterov ? grad + trace * options_.momentum : trace), {trace}};
  }

 private:
  Value trust_ratio(Value value, Value grad, const UpdateContext& c) const {
    const Value zero = ir::zeros_like(value), one = ir::ones_like(value);
    Value ratio = value * options_.trust / (grad + value * c.weight_decay + options_.eps);
    ratio = ir::select(ir::logical_and(ir::compare(ir::Compare::kGt, value, zero), ir::compare(ir::Compare::kGt, grad, zero)),
                       ratio, one);
    return options_.trust_clip ? ir::minimum(ratio / c.lr, one) : ratio;
  }
  LarsOptions options_;
};

std::unique_ptr<UpdateRule> make_lars_or_larc(config::Section section, LarsOptions options) {
  section.bind(options);
  check_share(section, "momentum", options.momentum);
  check_positive(section, "trust", options.trust);
  check_positive(section, "eps", options.eps);
  return std::make_unique<Lars>(options);
}

LarsOptions larc_defaults() { return {.trust_clip = true}; }

std::unique_ptr<UpdateRule> make_lars(config::Section section) { return make_lars_or_larc(std::move(section), {}); }
std::unique_ptr<UpdateRule> make_larc(config::Section section) {
  return make_lars_or_larc(std::move(section), larc_defaults());
}

std::vector<config::KeyDoc> larc_keys(const std::string& prefix) { return config::describe(larc_defaults(), prefix); }

}  // namespace

const OptimizerKind kLars = {"lars", "SGD with a rate for each layer, as timm", make_lars, config::keys_of<LarsOptions>};
const OptimizerKind kLarc = {"larc", "LARS whose rates are at most lr, as timm", make_larc, larc_keys};

}  // namespace tessera::optim
