#include "nn/norm/layer_norm.h"

#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::nn {
namespace {

using ir::Value;
using ir::Values;

Value of_row(Value x) { return ir::mean(x, {-1}, true); }
Value kept(Value x) { return ir::optimization_barrier({x})[0]; }

// Target::keeps_statistics(). `bias` may be missing.
Value norm_with_kept_statistics(Value x, Value scale, Value bias, double epsilon) {
  const Value wide = ir::widen(x), mean = kept(of_row(wide));
  const Value inverse = kept(ir::rsqrt(of_row(ir::square(wide - mean)) + epsilon));
  Value y = (wide - mean) * inverse * scale;
  if (bias) y = y + bias;

  Values inputs = {x, scale};
  if (bias) inputs.push_back(bias);
  const auto gradient = [](const Values& in, const Values& out, const Values& ct) -> Values {
    const Value normal = (ir::widen(in[0]) - out[1]) * out[2], dy = ir::widen(ct[0]), g = dy * in[1];
    const Value dx = out[2] * (g - of_row(g) - normal * of_row(g * normal));
    Values cotangents = {ir::convert(dx, in[0].dtype()), ir::sum_over_rows(dy * normal)};
    if (in.size() > 2) cotangents.push_back(ir::sum_over_rows(dy));
    return cotangents;
  };
  return ir::custom_gradient(inputs, {ir::convert(y, x.dtype()), mean, inverse}, gradient)[0];
}

}  // namespace

Value layer_norm(const Scope& scope, Value x, double epsilon, bool bias) {
  const ir::NameScope named(scope.name());
  const Dims features = {x.dim(-1)};
  const Value scale = scope.param("scale", features, init::ones());
  const Value offset = bias ? scope.param("bias", features, init::zeros()) : Value{};
  if (scope.target() && scope.target()->keeps_statistics()) return norm_with_kept_statistics(x, scale, offset, epsilon);
  const Value y = ir::standardize(ir::widen(x), epsilon) * scale;
  return ir::convert(bias ? y + offset : y, x.dtype());
}

}  // namespace tessera::nn
