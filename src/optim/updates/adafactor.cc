// Adafactor as timm computes it (Shazeer, Stern 2018, after Fairseq):
//   b2 = 1 - t^decay_rate      u = g / sqrt(nu), nu factored (factored.h)      u <- u / max(1, rms(u) / clip)
//   value <- value - r u, or with b1 > 0 - mu, where mu <- b1 mu + (1 - b1) r u
// r is lr, times min(1e-2, 1 / sqrt(t)) with relative_step (1e-6 t in place of 1e-2 with warmup_init), times max(eps_scale,
// rms(value)) with scale_parameter: timm's with lr = None at lr = 1, Hugging Face's with a rate of its own where only the
// latter holds. Factored are, in torch's order of dimensions ([out, in, h, w], [out, in]), the first two of more than two
// dimensions, where both are above min_factored, else the last two, where both are.

#include <optional>

#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/updates/factored.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct AdafactorOptions {
  double b1 = 0;
  double decay_rate = -0.8;
  double eps = 1e-30;
  double clip_threshold = 1;
  int64_t min_factored = 16;
  bool relative_step = false, warmup_init = false;
  std::optional<bool> scale_parameter;
  double eps_scale = 1e-3;
  std::string decoupled = "lr";
  bool caution = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the mean update; 0 for none");
    field("decay_rate", decay_rate, "power of the step in the second moment's decay, below 0");
    field("eps", eps, "added to squared gradients");
    field("clip_threshold", clip_threshold, "root mean square of an update before lr, at most");
    field("min_factored", min_factored, "second moments are factored where both dimensions are larger");
    field("relative_step", relative_step, "a rate that falls as 1 / sqrt(step), from 1e-2; `lr` is a factor on it, as 1");
    field("warmup_init", warmup_init, "that rate rises as 1e-6 step first");
    field("scale_parameter", scale_parameter,
          "the rate times the root mean square of each parameter; with relative_step when not given");
    field("eps_scale", eps_scale, "what that root mean square counts at least");
    field("decoupled", decoupled, kDecoupledHelp);
    field("caution", caution, "drop what disagrees with the gradient's sign; needs b1");
  }
};

class Adafactor final : public UpdateRule {
 public:
  Adafactor(AdafactorOptions options, Decay decay) : UpdateRule(decay), options_(std::move(options)) {}
  std::vector<Slot> slots(const Param& param) const override {
    std::vector<Slot> slots = factored_slots(param, axes(param));
    if (options_.b1 > 0) slots.push_back({"mu", param.block_dims(), true});
    return slots;
  }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots,
                const UpdateContext& context) const override {
    UpdateContext c = context;
    c.lr = rate(param, value, context);
    grad = penalize(grad, value, c);
    const Value b2 = adafactor_decay(c.step, -options_.decay_rate);
    auto [step, kept] = precondition(param, axes(param), grad, slots, b2, options_.eps);
    step = clip_rms(param, step, options_.clip_threshold) * c.lr;
    if (options_.b1 > 0) {
      step = moving_mean(slots.back(), step, options_.b1);
      kept.push_back(step);
      if (options_.caution) step = cautious(param, step, grad);
    }
    return {shrink(value, c) - step, kept};
  }

 private:
  Value rate(const Param& param, Value value, const UpdateContext& c) const {
    Value rate = c.lr;
    if (options_.relative_step) {
      const Value most = options_.warmup_init ? c.step * 1e-6 : ir::constant(1e-2);
      rate = rate * ir::minimum(most, ir::rsqrt(c.step));
    }
    if (options_.scale_parameter.value_or(options_.relative_step)) {
      rate = rate * ir::maximum(block_rms(param, value), ir::constant(options_.eps_scale));
    }
    return rate;
  }
  // Places of the dimensions in torch's order; of other parameters than kernels the order is the same.
  static Dims torch_order(const Param& param) {
    Dims order;
    const int64_t spatial = param.is_kernel() ? param.rank() - 2 : 0;
    if (param.is_kernel()) order = {param.rank() - 1, param.rank() - 2};
    for (int64_t i = 0; i < (param.is_kernel() ? spatial : param.rank()); ++i) order.push_back(i);
    return order;
  }
  FactoredAxes axes(const Param& param) const {
    const Dims dims = param.block_dims(), order = torch_order(param);
    const size_t rank = order.size();
    const auto above = [&](size_t i) { return dims[static_cast<size_t>(order[i])] > options_.min_factored; };
    if (rank > 2 && above(0) && above(1)) return {{order[0], order[1]}};
    if (rank >= 2 && above(rank - 2) && above(rank - 1)) return {{order[rank - 2], order[rank - 1]}};
    return {};
  }
  AdafactorOptions options_;
};

std::unique_ptr<UpdateRule> make_adafactor(config::Section section) {
  AdafactorOptions options;
  section.bind(options);
  check_share(section, "b1", options.b1);
  check_positive(section, "eps", options.eps);
  check_positive(section, "clip_threshold", options.clip_threshold);
  check_positive(section, "eps_scale", options.eps_scale);
  if (!(options.decay_rate < 0)) section.fail("decay_rate", "must be below 0");
  if (options.warmup_init && !options.relative_step) {
    section.fail("warmup_init", "is true, and only relative steps have it", "set relative_step = true");
  }
  return std::make_unique<Adafactor>(options, parse_decay(section, options.decoupled));
}

}  // namespace

const OptimizerKind kAdafactor = {"adafactor", "second moments by row and column, as timm (Fairseq)", make_adafactor,
                                  config::keys_of<AdafactorOptions>};

}  // namespace tessera::optim
