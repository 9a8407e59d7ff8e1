#include "nn/norm/batch_norm.h"

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/composite.h"
#include "ir/composites.h"
#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::nn {
namespace {

using ir::Value;

struct Statistics {
  Value mean, variance;
};

// Numbers of each channel, the last dimension, in all processes.
double numbers_of(Value x, const ir::Processes& processes) {
  const int64_t rows = element_count(x.dims()) / x.dim(-1);
  return static_cast<double>(rows * processes.count);
}

// Of each channel, over the rows of all processes.
Statistics of_batch(Value x, const ir::Processes& processes) {
  Dims others;
  for (int64_t i = 0; i + 1 < x.rank(); ++i) others.push_back(i);
  const double share = 1.0 / numbers_of(x, processes);
  const auto mean = [&](Value of) { return ir::sum_over_processes(processes, ir::sum(of, others)) * share; };
  const Value center = mean(x);
  return {center, mean(ir::square(x - center))};
}

// One value more of each channel than there is to learn from has no unbiased variance: torch refuses that batch, here it is 0.
double unbiased(Value x, const ir::Processes& processes) {
  const double count = numbers_of(x, processes);
  return count > 1 ? count / (count - 1) : 0;
}

// ---- as a composite: in training, on one device of one process

using ir::Values;

Value widened(Value x) { return ir::convert(x, DType::kF32); }
Value flat(Value x) { return ir::reshape(x, {x.dim(0) * x.dim(1) * x.dim(2), x.dim(3)}); }

// (x, scale, bias, mean, variance[, residual])
Value norm_by_statistics_in_ops(const ir::BatchNorm& norm, const Values& v) {
  Value y = (widened(v[0]) - v[3]) * (v[1] * ir::rsqrt(v[4] + norm.epsilon)) + v[2];
  if (norm.residual) y = y + widened(v[5]);
  if (norm.relu) y = ir::relu(y);
  return ir::convert(y, v[0].dtype());
}

// (x, scale, bias[, residual])
Values norm_in_ops(const ir::BatchNorm& norm, const Values& v) {
  const Value x = widened(v[0]), mean = ir::mean(x, {0}), variance = ir::mean(ir::square(x - mean), {0});
  Values all = {v[0], v[1], v[2], mean, variance};
  if (norm.residual) all.push_back(v[3]);
  return {norm_by_statistics_in_ops(norm, all), mean, variance};
}

// (dy, x, scale, mean, variance[, y])
Values norm_gradient_in_ops(const ir::BatchNorm& norm, const Values& v) {
  Value g = widened(v[0]);
  if (norm.relu) g = ir::select(ir::compare(ir::Compare::kGt, widened(v[5]), ir::constant(0)), g, ir::zeros_like(g));
  const Value inverse = ir::rsqrt(v[4] + norm.epsilon), normal = (widened(v[1]) - v[3]) * inverse;
  const Value dbias = ir::sum(g, {0}), dscale = ir::sum(g * normal, {0});
  const double share = 1 / static_cast<double>(g.dim(0));
  const Value dx = v[2] * inverse * (g - dbias * share - normal * (dscale * share));
  Values out = {ir::convert(dx, v[1].dtype()), dscale, dbias};
  if (norm.residual) out.push_back(ir::convert(g, v[1].dtype()));
  return out;
}

ir::Composite norm_composite(const ir::BatchNorm& norm) {
  return {"batch_norm", norm, [=](const Values& v) { return norm_in_ops(norm, v); }};
}

struct Normed {
  Value y;
  Statistics statistics;
};

std::optional<Normed> norm_of_batch(const Scope& scope, Value x, Value scale, Value bias, const BatchNormOptions& options) {
  const ir::BatchNorm norm{options.epsilon, options.relu, static_cast<bool>(options.residual)};
  Values inputs = {flat(x), scale, bias};
  if (norm.residual) inputs.push_back(flat(options.residual));
  std::vector<TensorType> types;
  for (const Value v : inputs) types.push_back(v.type());
  if (scope.processes().count > 1 || !scope.target() || !scope.target()->takes(norm_composite(norm), types))
    return std::nullopt;
  const Values out = ir::custom_gradient(
      inputs, ir::composite_node(norm_composite(norm), inputs), [=](const Values& in, const Values& result, const Values& ct) {
        Values operands = {ct[0], in[0], in[1], result[1], result[2]};
        if (norm.relu) operands.push_back(result[0]);
        return ir::composite_node({"batch_norm_backward", norm, [=](const Values& v) { return norm_gradient_in_ops(norm, v); }},
                                  operands);
      });
  return Normed{ir::reshape(out[0], x.dims()), {ir::stop_gradient(out[1]), ir::stop_gradient(out[2])}};
}

// With a mean and a variance that are given; nothing where the target has no kernel for that.
std::optional<Value> norm_of_statistics(const Scope& scope, Value x, Value scale, Value bias, const Statistics& given,
                                        const BatchNormOptions& options) {
  const ir::BatchNorm norm{options.epsilon, options.relu, static_cast<bool>(options.residual)};
  const ir::Composite composite("batch_norm_inference", norm,
                                [=](const Values& v) { return Values{norm_by_statistics_in_ops(norm, v)}; });
  Values inputs = {flat(x), scale, bias, given.mean, given.variance};
  if (norm.residual) inputs.push_back(flat(options.residual));
  std::vector<TensorType> types;
  for (const Value v : inputs) types.push_back(v.type());
  if (!scope.target() || !scope.target()->takes(composite, types)) return std::nullopt;
  return ir::reshape(ir::composite(scope.target(), composite, inputs)[0], x.dims());
}

Value whole_norm(const Scope& scope, Value x, const BatchNormOptions& options) {
  const ir::NameScope named(scope.name());
  TESSERA_CHECK(x.rank() == 4, "batch norm of {}", to_string(x.dims()));
  const Dims features = {x.dim(-1)};
  Statistics used{scope.buffer("running_mean", features, init::zeros()), scope.buffer("running_var", features, init::ones())};
  const Value batches = scope.buffer("num_batches_tracked", {}, init::zeros());
  const Value scale = scope.param("scale", features, options.scale_init), bias = scope.param("bias", features, init::zeros());
  if (!scope.training()) {
    if (const auto normed = norm_of_statistics(scope, x, scale, bias, used, options)) return *normed;
  }
  const std::optional<Normed> fused = scope.training() ? norm_of_batch(scope, x, scale, bias, options) : std::nullopt;
  Value wide = widened(x);
  // Pixels in one row: the norm and its gradient sum over one dimension.
  if (scope.target() && scope.target()->prefers_flat_sums()) wide = flat(wide);
  if (scope.training()) {
    const Statistics own = fused ? fused->statistics : of_batch(wide, scope.processes());
    const auto moved = [&](Value running, Value now) { return running * (1 - options.momentum) + now * options.momentum; };
    scope.update("running_mean", moved(used.mean, own.mean));
    scope.update("running_var", moved(used.variance, own.variance * unbiased(x, scope.processes())));
    scope.update("num_batches_tracked", batches + 1.0);
    used = own;
  }
  if (fused) return fused->y;
  const Value normed = (wide - used.mean) * (scale * ir::rsqrt(used.variance + options.epsilon)) + bias;
  Value y = ir::convert(ir::reshape(normed, x.dims()), x.dtype());
  if (options.residual) y = y + options.residual;
  return options.relu ? ir::relu(y) : y;
}

}  // namespace

Value batch_norm(const Scope& scope, Value x, const BatchNormOptions& options) {
  if (options.splits == 1) return whole_norm(scope, x, options);
  const int64_t rows = x.dim(0) / options.splits;
  TESSERA_CHECK(!scope.training() || rows * options.splits == x.dim(0), "{} rows in {} parts", x.dim(0), options.splits);
  Values parts;
  for (int64_t i = 0; i < options.splits; ++i) {
    const Scope own = i == 0 ? scope : scope / "aux_bn" / std::to_string(i - 1);
    BatchNormOptions of_part = options;
    if (!scope.training()) {
      // All ask for what is theirs, and the first answers.
      parts.push_back(whole_norm(own, x, of_part));
      continue;
    }
    const auto part = [&](Value of) { return ir::slice_axis(of, 0, i * rows, (i + 1) * rows); };
    if (options.residual) of_part.residual = part(options.residual);
    parts.push_back(whole_norm(own, part(x), of_part));
  }
  return scope.training() ? ir::concatenate(parts, 0) : parts[0];
}

}  // namespace tessera::nn
