#include "optim/clip.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/pattern.h"
#include "base/text/text.h"
#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::optim {
namespace {

using ir::Value;
using ir::Values;

class NoClip final : public Clip {
 public:
  Values apply(const Params&, const Values&, const Values& grads, Value) const override { return grads; }
};

class NormClip final : public Clip {
 public:
  explicit NormClip(double max) : max_(max) {}
  Values apply(const Params&, const Values&, const Values& grads, Value norm) const override {
    const Value scale = ir::minimum(max_ / (norm + 1e-6), ir::constant(1));
    Values clipped;
    for (const Value grad : grads) clipped.push_back(grad * scale);
    return clipped;
  }

 private:
  double max_;
};

class ValueClip final : public Clip {
 public:
  explicit ValueClip(double max) : max_(max) {}
  Values apply(const Params&, const Values&, const Values& grads, Value) const override {
    Values clipped;
    for (const Value grad : grads) clipped.push_back(ir::clamp(ir::constant(-max_), grad, ir::constant(max_)));
    return clipped;
  }

 private:
  double max_;
};

class AdaptiveClip final : public Clip {
 public:
  AdaptiveClip(double clip, double eps, Pattern exclude) : clip_(clip), eps_(eps), exclude_(std::move(exclude)) {}
  Values apply(const Params& params, const Values& values, const Values& grads, Value) const override {
    Values clipped;
    for (size_t i = 0; i < params.size(); ++i) {
      clipped.push_back(exclude_.matches(params[i].name) ? grads[i] : clip_units(params[i], values[i], grads[i]));
    }
    return clipped;
  }

 private:
  static Value unit_norm(const Param& param, Value x) {
    Dims axes;
    for (int64_t axis = param.stacked ? 1 : 0; axis < x.rank() - (param.is_kernel() ? 1 : 0); ++axis) axes.push_back(axis);
    return ir::sqrt(ir::sum(ir::square(x), axes, /*keep_dims=*/true));
  }
  Value clip_units(const Param& param, Value value, Value grad) const {
    const Value limit = ir::maximum(unit_norm(param, value), ir::constant(eps_)) * clip_;
    const Value norm = unit_norm(param, grad);
    const Value scale = limit / ir::maximum(norm, ir::constant(1e-6));
    return grad * ir::select(ir::compare(ir::Compare::kLt, norm, limit), ir::ones_like(scale), scale);
  }
  double clip_, eps_;
  Pattern exclude_;
};

double positive(CallReader& call, const char* name, std::optional<double> fallback = {}) {
  const double value = call.number(name, fallback);
  if (!(value > 0)) call.fail(fmt::format("`{}` must be above 0, and is {}", name, value));
  return value;
}

}  // namespace

std::unique_ptr<Clip> parse_clip(const std::string& text, const std::string& where) {
  const Call call = parse_call(text, where);
  CallReader reader(call, where);
  std::unique_ptr<Clip> clip;
  if (call.name == "none") {
    clip = std::make_unique<NoClip>();
  } else if (call.name == "norm") {
    clip = std::make_unique<NormClip>(positive(reader, "max"));
  } else if (call.name == "value") {
    clip = std::make_unique<ValueClip>(positive(reader, "max"));
  } else if (call.name == "adaptive") {
    const double factor = positive(reader, "clip");
    const double eps = positive(reader, "eps", 1e-3);
    clip = std::make_unique<AdaptiveClip>(factor, eps, Pattern(reader.text("exclude", "head/.*"), where));
  } else {
    const std::string help = parse_number(call.name)
                                 ? fmt::format("norm({0}) limits the norm of all gradients, value({0}) each of them", call.name)
                                 : suggest_name(call.name, {"none", "norm", "value", "adaptive"});
    throw usage_error(fmt::format("there is no clipping `{}`", call.name), where, help);
  }
  reader.finish();
  return clip;
}

}  // namespace tessera::optim
