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

// A row: the channels, x's last dimension, of one pixel of one image.
int64_t rows_of(Value x) { return element_count(x.dims()) / x.dim(-1); }

// Numbers of each channel in all processes.
double numbers_of(Value x, const ir::Processes& processes) { return static_cast<double>(rows_of(x) * processes.count); }

// Of each channel, over the rows of all processes.
Statistics of_batch(Value x, const ir::Processes& processes) {
  const double share = 1.0 / numbers_of(x, processes);
  const auto mean = [&](Value of) { return ir::sum_over_processes(processes, ir::sum_over_rows(of)) * share; };
  const Value center = mean(x);
  return {center, mean(ir::square(x - center))};
}

// One value more of each channel than there is to learn from has no unbiased variance: torch refuses that batch, here it is 0.
double unbiased(Value x, const ir::Processes& processes) {
  const double count = numbers_of(x, processes);
  return count > 1 ? count / (count - 1) : 0;
}

// ---- in one piece: in training, of one process

using ir::Values;

Value flat(Value x) { return ir::reshape(x, {x.dim(0) * x.dim(1) * x.dim(2), x.dim(3)}); }
Value is_open(Value y) { return ir::compare(ir::Compare::kGt, y, ir::constant(0, y.dtype())); }

Value inverse_deviation(const ir::BatchNorm& norm, Value variance) { return ir::rsqrt(variance + norm.epsilon); }

// (x, scale, bias, mean, variance[, residual])
Value norm_by_statistics_in_ops(const ir::BatchNorm& norm, const Values& v) {
  Value y = (ir::widen(v[0]) - v[3]) * (v[1] * inverse_deviation(norm, v[4])) + v[2];
  if (norm.residual) y = y + ir::widen(v[5]);
  if (norm.relu) y = ir::relu(y);
  return ir::convert(y, v[0].dtype());
}

// (x, scale, bias[, residual])
Values norm_in_ops(const ir::BatchNorm& norm, const Values& v, const Statistics& own) {
  Values all = {v[0], v[1], v[2], own.mean, own.variance};
  if (norm.residual) all.push_back(v[3]);
  return {norm_by_statistics_in_ops(norm, all), own.mean, own.variance};
}

// Where `open` is false the ReLU gave 0; it may be missing.
Values norm_gradient_in_ops(const ir::BatchNorm& norm, Value dy, Value x, Value scale, const Statistics& own, Value open) {
  Value g = ir::widen(dy);
  if (open) g = ir::select(open, g, ir::zeros_like(g));
  const Value inverse = inverse_deviation(norm, own.variance), normal = (ir::widen(x) - own.mean) * inverse;
  const Value dbias = ir::sum_over_rows(g), dscale = ir::sum_over_rows(g * normal);
  const double share = 1 / static_cast<double>(rows_of(g));
  const Value dx = scale * inverse * (g - dbias * share - normal * (dscale * share));
  Values out = {ir::convert(dx, x.dtype()), dscale, dbias};
  if (norm.residual) out.push_back(ir::convert(g, x.dtype()));
  return out;
}

struct Normed {
  Value y;
  Statistics statistics;
};

// `results`: y, mean, variance.
Normed normed(const Values& results) { return {results[0], {ir::stop_gradient(results[1]), ir::stop_gradient(results[2])}}; }

// ---- by a kernel, on one device

ir::Composite norm_composite(const ir::BatchNorm& norm) {
  return {"batch_norm", norm, [=](const Values& v) { return norm_in_ops(norm, v, of_batch(ir::widen(v[0]), {})); }};
}

// Its operands: (dy, x, scale, mean, variance[, y])
ir::Composite norm_gradient_composite(const ir::BatchNorm& norm) {
  return {"batch_norm_backward", norm, [=](const Values& v) {
            const Value open = norm.relu ? is_open(ir::widen(v[5])) : Value{};
            return norm_gradient_in_ops(norm, v[0], v[1], v[2], {v[3], v[4]}, open);
          }};
}

// Nothing where the target has none.
std::optional<Normed> norm_by_kernel(const ir::Target& target, const ir::BatchNorm& norm, Values inputs) {
  const Dims dims = inputs[0].dims();
  inputs[0] = flat(inputs[0]);
  if (norm.residual) inputs[3] = flat(inputs[3]);
  std::vector<TensorType> types;
  for (const Value v : inputs) types.push_back(v.type());
  if (!target.takes(norm_composite(norm), types)) return std::nullopt;
  Values out = ir::custom_gradient(inputs, ir::composite_node(norm_composite(norm), inputs),
                                   [=](const Values& in, const Values& result, const Values& ct) {
                                     Values operands = {ct[0], in[0], in[1], result[1], result[2]};
                                     if (norm.relu) operands.push_back(result[0]);
                                     return ir::composite_node(norm_gradient_composite(norm), operands);
                                   });
  out[0] = ir::reshape(out[0], dims);
  return normed(out);
}

// ---- in few passes over memory (Target::keeps_statistics)

// In one pass. `near`: of each channel, a number that is not far from the mean, or the difference of two large numbers would be left
// of a small variance (Chan, Golub and LeVeque 1983, shifted data).
Statistics of_batch_in_one_pass(Value x, Value near) {
  const double share = 1.0 / static_cast<double>(rows_of(x));
  const Value shifted = x - near, mean = ir::sum_over_rows(shifted) * share,
              squares = ir::sum_over_rows(ir::square(shifted)) * share;
  return {near + mean, ir::maximum(squares - ir::square(mean), ir::constant(0))};
}

// Its gradient takes two passes.
Normed norm_in_few_passes(const ir::BatchNorm& norm, const Values& inputs, Value near) {
  const Statistics own = of_batch_in_one_pass(ir::widen(inputs[0]), ir::stop_gradient(near));
  const auto gradient = [=](const Values& in, const Values& result, const Values& ct) {
    const Value open = norm.relu ? is_open(result[0]) : Value{};
    return norm_gradient_in_ops(norm, ct[0], in[0], in[1], {result[1], result[2]}, open);
  };
  return normed(ir::custom_gradient(inputs, norm_in_ops(norm, inputs, own), gradient));
}

// `near`: as above. Nothing: norm and gradient are left to ops and their gradients.
std::optional<Normed> norm_in_one_piece(const Scope& scope, Value x, Value scale, Value bias, Value near,
                                        const BatchNormOptions& options) {
  if (scope.processes().count > 1 || !scope.target()) return std::nullopt;
  const bool residual = static_cast<bool>(options.residual);
  if (scope.target()->keeps_statistics()) {
    // The sum is one of x's dtype: of f32, XLA would keep it in memory as f32.
    Normed out = norm_in_few_passes({options.epsilon, options.relu && !residual, false}, {x, scale, bias}, near);
    if (residual) out.y = options.relu ? ir::relu(out.y + options.residual) : out.y + options.residual;
    return out;
  }
  const ir::BatchNorm norm{options.epsilon, options.relu, residual};
  Values inputs = {x, scale, bias};
  if (norm.residual) inputs.push_back(options.residual);
  return norm_by_kernel(*scope.target(), norm, inputs);
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
    if (const auto y = norm_of_statistics(scope, x, scale, bias, used, options)) return *y;
  }
  const std::optional<Normed> whole =
      scope.training() ? norm_in_one_piece(scope, x, scale, bias, used.mean, options) : std::nullopt;
  Value wide = ir::widen(x);
  // Pixels in one row: the norm and its gradient sum over one dimension.
  if (scope.target() && scope.target()->prefers_flat_sums()) wide = flat(wide);
  if (scope.training()) {
    const Statistics own = whole ? whole->statistics : of_batch(wide, scope.processes());
    const auto moved = [&](Value running, Value now) { return running * (1 - options.momentum) + now * options.momentum; };
    scope.update("running_mean", moved(used.mean, own.mean));
    scope.update("running_var", moved(used.variance, own.variance * unbiased(x, scope.processes())));
    scope.update("num_batches_tracked", batches + 1.0);
    used = own;
  }
  if (whole) return whole->y;
  const Value normal = (wide - used.mean) * (scale * ir::rsqrt(used.variance + options.epsilon)) + bias;
  Value y = ir::convert(ir::reshape(normal, x.dims()), x.dtype());
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
