#include "nn/host_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops.h"
#include "nn/dense.h"

namespace tessera::nn {
namespace {

using ir::Value;
using ir::Values;

// Weights packed for the matrix unit take 6 bytes each, their gradient 4: with a block of rows they are to stay in 2 MiB.
constexpr int64_t kMaxWeights = int64_t{192} * 768;

enum class Input { kPlain, kNorm, kGelu, kGeluTanh };

// One dense layer: what it reads and how.
struct Layer {
  HostKernels kernels;
  Input input = Input::kPlain;
  double epsilon = 0;

  std::string attributes(Value x, Value kernel) const {
    static constexpr const char* kNames[] = {"plain", "norm", "gelu", "gelu_tanh"};
    return fmt::format("rows = {} : i64, in = {} : i64, out = {} : i64, input = \"{}\", epsilon = {:e} : f64", x.dim(0),
                       kernel.dim(0), kernel.dim(1), kNames[static_cast<size_t>(input)], epsilon);
  }

  // x, kernel, bias[, scale, offset][, residual] -> y.
  Value operator()(const Values& operands) const {
    const TensorType y{DType::kF32, {operands[0].dim(0), operands[1].dim(1)}};
    return ir::ffi_call(kernels.dense, operands, {y}, attributes(operands[0], operands[1]))[0];
  }

  // dy, x, kernel[, scale, offset[, add]] -> the cotangents of x, kernel, bias[, scale, offset].
  Values gradient(const Values& operands) const {
    const Value x = operands[1], kernel = operands[2];
    std::vector<TensorType> types = {x.type(), kernel.type(), {DType::kF32, {kernel.dim(1)}}};
    for (size_t i = 3; i < std::min<size_t>(operands.size(), 5); ++i) types.push_back(operands[i].type());
    return ir::ffi_call(kernels.dense_gradient, operands, types, attributes(x, kernel));
  }
};

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

}  // namespace

bool host_block_fits(const Scope& scope, int64_t features, const AttentionOptions& attention, const MlpOptions& mlp) {
  const HostKernels& kernels = scope.kernels();
  const bool there = !kernels.dense.empty() && !kernels.self_attention.empty() && scope.compute() == DType::kF32;
  const bool drops = scope.random() && (attention.attn_dropout > 0 || attention.dropout > 0 || mlp.dropout > 0);
  return there && !drops && !attention.qk_norm && std::max(3 * features, mlp.hidden) * features <= kMaxWeights;
}

Value host_attention_branch(const Scope& norm, const Scope& attn, Value x, int64_t batch, double epsilon,
                            const AttentionOptions& options) {
  const ir::NameScope named(attn.name());
  const HostKernels kernels = attn.kernels();
  const int64_t features = x.dim(-1);
  const auto [scale, offset] = norm_params(norm, features);
  const auto [qkv_kernel, qkv_bias] = dense_params(attn / "qkv", features, 3 * features, {options.qkv_bias, options.qkv_init});
  const auto [kernel, bias] = dense_params(attn / "proj", features, features, {options.proj_bias, options.proj_init});

  const Layer qkv_layer{kernels, Input::kNorm, epsilon}, proj_layer{kernels};
  const std::string heads = fmt::format("batch = {} : i64, heads = {} : i64", batch, options.heads);
  const Value qkv = ir::checkpoint_name(qkv_layer({x, qkv_kernel, qkv_bias, scale, offset}), "qkv");
  const Value mixed = ir::checkpoint_name(ir::ffi_call(kernels.self_attention, {qkv}, {x.type()}, heads)[0], "attention");
  const Value y = ir::checkpoint_name(proj_layer({mixed, kernel, bias, x}), "proj");

  // What lies between has no gradient of its own: it stands among the inputs for the sake of the rule.
  const Values inputs = {x, scale, offset, qkv_kernel, qkv_bias, kernel, bias, qkv, mixed};
  return ir::custom_gradient(inputs, {y}, [=](const Values& in, const Values&, const Values& ct) -> Values {
    const Values proj = proj_layer.gradient({ct[0], in[8], in[5]});
    const Value dqkv = ir::ffi_call(kernels.self_attention_gradient, {in[7], proj[0]}, {in[7].type()}, heads)[0];
    const Values layer = qkv_layer.gradient({dqkv, in[0], in[3], in[1], in[2], ct[0]});
    return {layer[0], layer[3], layer[4], layer[1], layer[2], proj[1], proj[2], {}, {}};
  })[0];
}

Value host_mlp_branch(const Scope& norm, const Scope& mlp, Value x, double epsilon, const MlpOptions& options) {
  const ir::NameScope named(mlp.name());
  const int64_t features = x.dim(-1);
  const DenseOptions dense{options.bias, options.kernel_init, options.bias_init};
  const auto [scale, offset] = norm_params(norm, features);
  const auto [kernel1, bias1] = dense_params(mlp / "fc1", features, options.hidden, dense);
  const auto [kernel2, bias2] = dense_params(mlp / "fc2", options.hidden, features, dense);

  const Layer layer1{mlp.kernels(), Input::kNorm, epsilon},
      layer2{mlp.kernels(), options.activation == Activation::kGelu ? Input::kGelu : Input::kGeluTanh};
  const Value hidden = ir::checkpoint_name(layer1({x, kernel1, bias1, scale, offset}), "fc1");
  const Value y = ir::checkpoint_name(layer2({hidden, kernel2, bias2, x}), "fc2");

  const Values inputs = {x, scale, offset, kernel1, bias1, kernel2, bias2, hidden};
  return ir::custom_gradient(inputs, {y}, [=](const Values& in, const Values&, const Values& ct) -> Values {
    const Values second = layer2.gradient({ct[0], in[7], in[5]});
    const Values first = layer1.gradient({second[0], in[0], in[3], in[1], in[2], ct[0]});
    return {first[0], first[3], first[4], first[1], first[2], second[1], second[2], {}};
  })[0];
}

}  // namespace tessera::nn
