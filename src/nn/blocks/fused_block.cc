#include "nn/blocks/fused_block.h"

#include <span>
#include <utility>
#include <vector>

#include "ir/composite.h"
#include "ir/composites.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "nn/dense.h"

namespace tessera::nn {
namespace {

using ir::Composite;
using ir::DenseInput;
using ir::DenseLayer;
using ir::Value;
using ir::Values;

// ---- one dense layer, in ops (ir/composites.h lists its operands and results)

// Of f32.
Value input_of(const DenseLayer& layer, Value x, Value scale, Value offset) {
  switch (layer.input) {
    case DenseInput::kPlain: return x;
    case DenseInput::kNorm: return ir::standardize(x, layer.epsilon) * scale + offset;
    case DenseInput::kGelu: return ir::gelu_exact(x);
    case DenseInput::kGeluTanh: return ir::gelu_tanh(x);
  }
  return {};
}

Values dense_in_ops(const DenseLayer& layer, const Values& v) {
  const bool norm = layer.input == DenseInput::kNorm;
  const size_t next = norm ? 5 : 3;
  const DType dtype = v[0].dtype();
  const Value input = input_of(layer, ir::widen(v[0]), norm ? v[3] : Value{}, norm ? v[4] : Value{});
  const Value y = ir::widen(ir::matmul(ir::convert(input, dtype), ir::convert(v[1], dtype))) + v[2];
  return {ir::convert(next < v.size() ? y + ir::widen(v[next]) : y, dtype)};
}

Values dense_gradient_in_ops(const DenseLayer& layer, const Values& v) {
  const Value dy = v[0];
  Values local = {v[1], v[2], ir::zeros({DType::kF32, {v[2].dim(1)}})};  // x, kernel, bias[, scale, offset]
  if (layer.input == DenseInput::kNorm) local.insert(local.end(), {v[3], v[4]});
  for (Value& x : local) x = ir::stop_gradient(x);
  Values out = ir::vjp(dense_in_ops(layer, local), {dy}, local);
  if (v.size() == 6) out[0] = out[0] + v[5];
  return out;
}

Composite dense_composite(const DenseLayer& layer) {
  return {"dense", layer, [=](const Values& v) { return dense_in_ops(layer, v); }};
}

Value call(const DenseLayer& layer, const Values& operands) { return ir::composite_node(dense_composite(layer), operands)[0]; }

Values call_gradient(const DenseLayer& layer, const Values& operands) {
  return ir::composite_node({"dense_backward", layer, [=](const Values& v) { return dense_gradient_in_ops(layer, v); }},
                            operands);
}

// ---- parameters

struct Pair {
  Value first, second;
};

Pair norm_params(const Scope& scope, int64_t features) {
  const Value scale = scope.param("scale", {features}, init::ones());
  return {scale, scope.param("bias", {features}, init::zeros())};
}

// A layer without a bias has one of zeros that nobody trains.
Pair dense_params(const Scope& scope, int64_t in, int64_t out, const DenseOptions& options) {
  const Value kernel = scope.param("kernel", {in, out}, options.kernel_init);
  return {kernel, options.bias ? scope.param("bias", {out}, options.bias_init) : ir::zeros({DType::kF32, {out}})};
}

DenseInput activation_of(const MlpOptions& options) {
  return options.activation == Activation::kGelu ? DenseInput::kGelu : DenseInput::kGeluTanh;
}

bool may_fuse(const Scope& scope, Value x) { return scope.target() && scope.compute() == x.dtype(); }

bool takes_dense(const Scope& scope, DType dtype, DenseInput input, int64_t rows, int64_t in, int64_t out) {
  const auto f32 = [](Dims dims) { return TensorType{DType::kF32, std::move(dims)}; };
  std::vector<TensorType> types = {{dtype, {rows, in}}, f32({in, out}), f32({out})};
  if (input == DenseInput::kNorm) types.insert(types.end(), {f32({in}), f32({in})});
  return scope.target()->takes(dense_composite({input}), types);
}

}  // namespace

bool fused_attention_fits(const Scope& scope, ir::Value x, int64_t batch, int64_t tokens, const AttentionOptions& options) {
  const bool drops = scope.random() && (options.attn_dropout > 0 || options.dropout > 0);
  if (!may_fuse(scope, x) || drops || options.qk_norm) return false;
  const int64_t rows = x.dim(0), features = x.dim(1);
  const Composite attention = self_attention_composite({options.heads, rows / batch});
  return scope.target()->takes(attention, {{x.dtype(), {rows, 3 * features}}}) &&
         takes_dense(scope, x.dtype(), DenseInput::kNorm, rows, features, 3 * features) &&
         takes_dense(scope, x.dtype(), DenseInput::kPlain, batch * tokens, features, features);
}

bool fused_mlp_fits(const Scope& scope, ir::Value x, const MlpOptions& options, DenseInput input) {
  if (!may_fuse(scope, x) || x.rank() != 2 || (scope.random() && options.dropout > 0)) return false;
  const int64_t rows = x.dim(0), features = x.dim(1);
  return takes_dense(scope, x.dtype(), input, rows, features, options.hidden) &&
         takes_dense(scope, x.dtype(), activation_of(options), rows, options.hidden, features);
}

namespace {

// `operands`, and x where it is added.
Values with_residual(Values operands, Value x, Residual residual) {
  if (residual == Residual::kAdded) operands.push_back(x);
  return operands;
}

// The first `count` tokens of each sample, [batch * tokens, features] -> [batch * count, features], and the gradient.
Value first_tokens(Value x, int64_t batch, int64_t count) {
  const int64_t tokens = x.dim(0) / batch, features = x.dim(1);
  if (count == tokens) return x;
  return ir::reshape(ir::slice_axis(ir::reshape(x, {batch, tokens, features}), 1, 0, count), {batch * count, features});
}
Value first_tokens_gradient(Value ct, int64_t batch, int64_t tokens) {
  const int64_t count = ct.dim(0) / batch, features = ct.dim(1);
  if (count == tokens) return ct;
  const Value rows = ir::reshape(ct, {batch, count, features});
  const Value all = ir::pad(rows, ir::constant(0, ct.dtype()), {0, 0, 0}, {0, tokens - count, 0});
  return ir::reshape(all, {batch * tokens, features});
}

}  // namespace

Value fused_attention_branch(const Scope& norm, const Scope& attn, Value x, int64_t batch, int64_t tokens, double epsilon,
                             const AttentionOptions& options, Residual residual) {
  const ir::NameScope named(attn.name());
  const int64_t features = x.dim(-1);
  const auto [scale, offset] = norm_params(norm, features);
  const auto [qkv_kernel, qkv_bias] = dense_params(attn / "qkv", features, 3 * features, {options.qkv_bias, options.qkv_init});
  const auto [kernel, bias] = dense_params(attn / "proj", features, features, {options.proj_bias, options.proj_init});

  const DenseLayer qkv_layer{DenseInput::kNorm, epsilon}, proj_layer;
  const int64_t all_tokens = x.dim(0) / batch;
  const Composite attention = self_attention_composite({options.heads, all_tokens});
  const Value qkv = ir::checkpoint_name(call(qkv_layer, {x, qkv_kernel, qkv_bias, scale, offset}), "qkv");
  const Value attended = first_tokens(ir::composite_node(attention, {qkv})[0], batch, tokens);
  const Value mixed = ir::checkpoint_name(attended, "attention");
  const Values proj_inputs = with_residual({mixed, kernel, bias}, first_tokens(x, batch, tokens), residual);
  const Value y = ir::checkpoint_name(call(proj_layer, proj_inputs), "proj");

  // What lies between has no gradient of its own: it stands among the inputs for the sake of the rule.
  const Values inputs = {x, scale, offset, qkv_kernel, qkv_bias, kernel, bias, qkv, mixed};
  return ir::custom_gradient(inputs, {y}, [=](const Values& in, const Values&, const Values& ct) -> Values {
    const Values proj = call_gradient(proj_layer, {ct[0], in[8], in[5]});
    const auto of_all = [&](Value rows) { return first_tokens_gradient(rows, batch, all_tokens); };
    const Value dqkv = ir::composite_node(attention.gradient(1), {in[7], of_all(proj[0])})[0];
    const Values layer = call_gradient(qkv_layer, with_residual({dqkv, in[0], in[3], in[1], in[2]}, of_all(ct[0]), residual));
    return {layer[0], layer[3], layer[4], layer[1], layer[2], proj[1], proj[2], {}, {}};
  })[0];
}

namespace {

// The layers fc1, with the norm of these parameters before it where there are any, and fc2.
Value fused_layers(const Scope& mlp, Value x, const DenseLayer& layer1, const Values& norm, const MlpOptions& options,
                   Residual residual) {
  const int64_t features = x.dim(-1);
  const DenseOptions dense{options.bias, options.kernel_init, options.bias_init};
  const auto [kernel1, bias1] = dense_params(mlp / "fc1", features, options.hidden, dense);
  const auto [kernel2, bias2] = dense_params(mlp / "fc2", options.hidden, features, dense);

  const DenseLayer layer2{activation_of(options)};
  const auto joined = [](Values values, std::span<const Value> more) {
    values.insert(values.end(), more.begin(), more.end());
    return values;
  };
  const Value hidden = ir::checkpoint_name(call(layer1, joined({x, kernel1, bias1}, norm)), "fc1");
  const Value y = ir::checkpoint_name(call(layer2, with_residual({hidden, kernel2, bias2}, x, residual)), "fc2");

  const Values inputs = joined({x, kernel1, bias1, kernel2, bias2, hidden}, norm);
  return ir::custom_gradient(inputs, {y}, [=](const Values& in, const Values&, const Values& ct) -> Values {
    const Values second = call_gradient(layer2, {ct[0], in[5], in[3]});
    const Values operands = joined({second[0], in[0], in[1]}, std::span(in).subspan(6));
    const Values first = call_gradient(layer1, with_residual(operands, ct[0], residual));
    return joined({first[0], first[1], first[2], second[1], second[2], {}}, std::span(first).subspan(3));
  })[0];
}

}  // namespace

Value fused_mlp_branch(const Scope& norm, const Scope& mlp, Value x, double epsilon, const MlpOptions& options,
                       Residual residual) {
  const ir::NameScope named(mlp.name());
  const auto [scale, offset] = norm_params(norm, x.dim(-1));
  return fused_layers(mlp, x, {DenseInput::kNorm, epsilon}, {scale, offset}, options, residual);
}

Value fused_mlp(const Scope& scope, Value x, const MlpOptions& options) {
  return fused_layers(scope, x, {}, {}, options, Residual::kLeft);
}

}  // namespace tessera::nn
