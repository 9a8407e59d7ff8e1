// AdamP and SGDP as timm computes them (Heo et al. 2021): where the gradient is nearly orthogonal to a weight, the part of the step
// that only makes the weight longer is taken out of it, since norms make that part useless. With the step u of Adam (of SGD: the
// trace, with nesterov g + momentum trace), of parameters of two dimensions and more:
//   rows of units, then the whole array: if max |cos(g, w)| < delta / sqrt(numbers of a row)
//     u <- u - n (n . u), n = w / (|w| + eps)      and weight_decay <- wd_ratio weight_decay
//   value <- value (1 - lr weight_decay) - lr u      SGDP: weight_decay / (1 - momentum)
// A row holds the numbers of an output unit: torch's first dimension.

#include <cmath>

#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/blocks.h"
#include "optim/update_rule.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct ProjectionOptions {
  double delta = 0.1, wd_ratio = 0.1, eps = 1e-8;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("delta", delta, "how near to orthogonal a gradient is to its weights for their norm to be projected out");
    field("wd_ratio", wd_ratio, "of weight decay, where it is projected out");
    field("eps", eps, "least norm to divide by");
  }
  void check(const config::Section& section) const {
    check_positive(section, "delta", delta);
    check_positive(section, "eps", eps);
    if (wd_ratio < 0) section.fail("wd_ratio", "must not be negative");
  }
};

// A view of a block's array as rows: the axes that a row extends over, and how many numbers it has.
struct RowView {
  Dims axes;
  double numbers = 0;
  Value sum(Value x) const { return ir::sum(x, axes, /*keep_dims=*/true); }
  Value norm(Value x) const { return ir::sqrt(sum(ir::square(x))); }
};

RowView rows_of_units(const Param& param) {
  const int64_t first = param.stacked ? 1 : 0, last = param.type.rank() - 1, unit = param.is_kernel() ? last : first;
  RowView view;
  for (int64_t axis = first; axis <= last; ++axis) {
    if (axis != unit) view.axes.push_back(axis);
  }
  const int64_t numbers = element_count(param.block_dims()) / param.type.dims[static_cast<size_t>(unit)];
  view.numbers = static_cast<double>(numbers);
  return view;
}

RowView whole_array(const Param& param) {
  RowView view;
  for (int64_t axis = param.stacked ? 1 : 0; axis < param.type.rank(); ++axis) view.axes.push_back(axis);
  view.numbers = static_cast<double>(element_count(param.block_dims()));
  return view;
}

struct Projected {
  Value step;
  Value decay;  // what weight decay is multiplied by
};

class Projection {
 public:
  explicit Projection(const ProjectionOptions& options) : options_(options) {}

  Projected apply(const Param& param, Value value, Value grad, Value step) const {
    const Value one = ir::constant(1);
    if (param.rank() < 2) return {step, one};
    const RowView units = rows_of_units(param), whole = whole_array(param);
    const Value by_units = orthogonal(whole, units, value, grad), by_whole = orthogonal(whole, whole, value, grad);
    const auto choose = [&](Value first, Value second, Value neither) {
      const auto shaped = [&](Value condition) { return ir::broadcast_to(condition, neither.dims()); };
      return ir::select(shaped(by_units), first, ir::select(shaped(by_whole), second, neither));
    };
    const Value ratio = ir::broadcast_to(ir::constant(options_.wd_ratio), by_units.dims());
    return {choose(without_radius(units, value, step), without_radius(whole, value, step), step),
            choose(ratio, ratio, ir::ones_like(ratio))};
  }

 private:
  // Of each block, [1, …] or [depth, 1, …].
  Value orthogonal(const RowView& whole, const RowView& rows, Value value, Value grad) const {
    const Value least = ir::constant(options_.eps);
    const Value norms = ir::maximum(rows.norm(grad), least) * ir::maximum(rows.norm(value), least);
    const Value cosine = ir::reduce_max(ir::abs(rows.sum(value * grad) / norms), whole.axes, /*keep_dims=*/true);
    return ir::compare(ir::Compare::kLt, cosine,
                       ir::broadcast_to(ir::constant(options_.delta / std::sqrt(rows.numbers)), cosine.dims()));
  }
  Value without_radius(const RowView& rows, Value value, Value step) const {
    const Value direction = value / (rows.norm(value) + options_.eps);
    return step - direction * rows.sum(direction * step);
  }

  ProjectionOptions options_;
};

struct AdamPOptions : ProjectionOptions {
  AdamPOptions() { wd_ratio = 0.01; }
  double b1 = 0.9, b2 = 0.999;
  bool nesterov = true;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("b1", b1, "decay of the first moment");
    field("b2", b2, "decay of the second moment");
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
    ProjectionOptions::visit(field);
  }
};

class AdamP final : public UpdateRule {
 public:
  explicit AdamP(const AdamPOptions& options) : UpdateRule(Decay::kLr), options_(options), projection_(options) {}
  std::vector<Slot> slots(const Param& param) const override {
    return {{"mu", param.block_dims(), true}, {"nu", param.block_dims()}};
  }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    const Value mu = moving_mean(slots[0], grad, options_.b1), nu = moving_mean(slots[1], ir::square(grad), options_.b2);
    const Value root = ir::sqrt(nu) * ir::rsqrt(bias_correction(options_.b2, c.step)) + options_.eps;
    const Value step = (options_.nesterov ? moving_mean(mu, grad, options_.b1) : mu) / root;
    const Projected projected = projection_.apply(param, value, grad, step);
    if (c.weight_decay != 0) value = value * (1.0 - c.lr * c.weight_decay * projected.decay);
    return {value - c.lr / bias_correction(options_.b1, c.step) * projected.step, {mu, nu}};
  }

 private:
  AdamPOptions options_;
  Projection projection_;
};

struct SgdPOptions : ProjectionOptions {
  double momentum = 0.9;
  bool nesterov = true;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("momentum", momentum, "decay of the running sum of gradients");
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
    ProjectionOptions::visit(field);
  }
};

class SgdP final : public UpdateRule {
 public:
  explicit SgdP(const SgdPOptions& options) : UpdateRule(Decay::kLr), options_(options), projection_(options) {}
  std::vector<Slot> slots(const Param& param) const override { return {{"trace", param.block_dims(), true}}; }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    const Value trace = slots[0] * options_.momentum + grad;
    const Projected projected =
        projection_.apply(param, value, grad, options_.nesterov ? grad + trace * options_.momentum : trace);
    if (c.weight_decay != 0) {
      value = value * (1.0 - c.lr * (c.weight_decay / (1 - options_.momentum)) * projected.decay);
    }
    return {value - c.lr * projected.step, {trace}};
  }

 private:
  SgdPOptions options_;
  Projection projection_;
};

std::unique_ptr<UpdateRule> make_adamp(config::Section section) {
  AdamPOptions options;
  section.bind(options);
  check_share(section, "b1", options.b1);
  check_share(section, "b2", options.b2);
  options.check(section);
  return std::make_unique<AdamP>(options);
}

std::unique_ptr<UpdateRule> make_sgdp(config::Section section) {
  SgdPOptions options;
  section.bind(options);
  check_share(section, "momentum", options.momentum);
  options.check(section);
  return std::make_unique<SgdP>(options);
}

}  // namespace

const OptimizerKind kAdamP = {"adamp", "AdamW whose steps do not lengthen weights that a norm follows, as timm", make_adamp,
                              config::keys_of<AdamPOptions>};
const OptimizerKind kSgdP = {"sgdp", "SGD whose steps do not lengthen weights that a norm follows, as timm", make_sgdp,
                             config::keys_of<SgdPOptions>};

}  // namespace tessera::optim
