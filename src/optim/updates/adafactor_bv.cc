// Adafactor as big_vision's scale_by_adafactor computes it (Zhai et al. 2021, with optax's scale_by_factored_rms):
//   b2 = min(beta2_cap, 1 - t^-decay_rate)      u = g / sqrt(nu), nu factored (factored.h)
//   u <- u / max(1, rms(u) / clip_threshold), if one is given      mu <- b1 mu + (1 - b1) u      value <- value - lr mu
// Factored are the two largest dimensions (the later of equal ones counts as larger), where both are at least min_factored.
// big_vision keeps mu in bf16 (moments = "bf16") and scales weight decay by the schedule alone.

#include <algorithm>
#include <numeric>

#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/updates/factored.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct AdafactorBvOptions {
  double b1 = 0.9;
  double decay_rate = 0.8;
  int64_t decay_offset = 0;
  double beta2_cap = 0.999;
  double eps = 1e-30;
  std::optional<double> clip_threshold;
  int64_t min_factored = 32;
  std::string decoupled = "schedule";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the mean update; 0 for none");
    field("decay_rate", decay_rate, "minus the power of the step in the second moment's decay");
    field("decay_offset", decay_offset, "steps done before, of a run that is fine-tuned");
    field("beta2_cap", beta2_cap, "the second moment's decay, at most");
    field("eps", eps, "added to squared gradients");
    field("clip_threshold", clip_threshold, "root mean square of an update before lr, at most; none when not given");
    field("min_factored", min_factored, "second moments are factored where the two largest dimensions are at least this");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign; needs b1");
  }
};

class AdafactorBv final : public UpdateRule {
 public:
  AdafactorBv(AdafactorBvOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    std::vector<Slot> slots = factored_slots(param, axes(param));
    if (options_.b1 > 0) slots.push_back({"mu", param.block_dims(), true});
    return slots;
  }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    grad = penalize(grad, value, c);
    const Value step = ir::maximum(c.step - static_cast<double>(options_.decay_offset), ir::constant(1));
    const Value b2 = ir::minimum(adafactor_decay(step, options_.decay_rate), ir::constant(options_.beta2_cap));
    auto [scaled, kept] = precondition(param, axes(param), grad, slots, b2, options_.eps);
    if (options_.clip_threshold) scaled = clip_rms(param, scaled, *options_.clip_threshold);
    if (options_.b1 > 0) {
      scaled = moving_mean(slots.back(), scaled, options_.b1);
      kept.push_back(scaled);
      if (options_.caution) scaled = cautious(param, scaled, grad);
    }
    return {shrink(value, c) - c.lr * scaled, kept};
  }

 private:
  FactoredAxes axes(const Param& param) const {
    if (param.rank() < 2) return {};
    const Dims dims = param.block_dims();
    Dims order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    const auto size = [&](int64_t i) { return dims[static_cast<size_t>(i)]; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) < size(b); });
    const int64_t second = order[order.size() - 2], largest = order.back();
    if (size(second) < options_.min_factored) return {};
    return {{second, largest}};
  }
  AdafactorBvOptions options_;
};

std::unique_ptr<UpdateRule> make_adafactor_bv(config::Section section) {
  AdafactorBvOptions options;
  section.bind(options);
  check_share(section, "b1", options.b1);
  check_share(section, "beta2_cap", options.beta2_cap);
  check_positive(section, "eps", options.eps);
  check_positive(section, "decay_rate", options.decay_rate);
  if (options.clip_threshold) check_positive(section, "clip_threshold", *options.clip_threshold);
  return std::make_unique<AdafactorBv>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kAdafactorBv = {"adafactor_bv", "second moments by row and column, as big_vision", make_adafactor_bv,
                                    config::keys_of<AdafactorBvOptions>};

}  // namespace tessera::optim
