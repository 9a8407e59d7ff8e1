#include "nn/attention.h"

#include <cmath>

#include "base/error.h"
#include "ir/functions.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/layer_norm.h"

namespace tessera::nn {

namespace {

// The same without dropout by a kernel of the host, which wants the tokens before the heads: [batch, tokens, heads, width].
ir::Value host_attention(const HostKernels& kernels, ir::Value q, ir::Value k, ir::Value v) {
  const ir::Values out = ir::foreign_call(kernels.attention, {q, k, v}, {q.type()});
  return ir::custom_gradient({q, k, v}, out, [kernels](const ir::Values& x, const ir::Values&, const ir::Values& ct) {
    return ir::foreign_call(kernels.attention_gradient, {x[0], x[1], x[2], ct[0]}, {x[0].type(), x[1].type(), x[2].type()});
  })[0];
}

bool host_attention_fits(const Scope& scope, ir::Value v, double rate) {
  return !scope.kernels().attention.empty() && v.dtype() == DType::kF32 && (rate == 0 || !scope.random());
}

}  // namespace

ir::Value dot_product_attention(const Scope& scope, ir::Value q, ir::Value k, ir::Value v, double rate) {
  if (host_attention_fits(scope, v, rate)) return host_attention(scope.kernels(), q, k, v);
  const auto heads_first = [](ir::Value x) { return ir::transpose(x, {0, 2, 1, 3}); };
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(-1)));
  const ir::Value scores = ir::dot_general(heads_first(q) * scale, heads_first(k), {{0, 1}, {0, 1}, {3}, {3}});
  ir::Value probabilities = ir::convert(ir::softmax(ir::convert(scores, DType::kF32)), v.dtype());
  probabilities = dropout(scope / "drop", probabilities, rate);
  return heads_first(ir::dot_general(probabilities, heads_first(v), {{0, 1}, {0, 1}, {3}, {2}}));
}

ir::Values split_heads(ir::Value x, int64_t batch, int64_t heads, int64_t parts) {
  const int64_t tokens = x.dim(0) / batch, width = x.dim(1) / (parts * heads);
  TESSERA_CHECK(tokens * batch == x.dim(0) && width * parts * heads == x.dim(1), "{} split for {} images into {} x {} heads",
                to_string(x.dims()), batch, parts, heads);
  ir::Values split;
  for (int64_t i = 0; i < parts; ++i) {
    const ir::Value part = ir::slice_axis(x, 1, i * heads * width, (i + 1) * heads * width);
    split.push_back(ir::reshape(part, {batch, tokens, heads, width}));
  }
  return split;
}

ir::Value merge_heads(ir::Value x) {
  const Dims d = x.dims();
  return ir::reshape(x, {d[0] * d[1], d[2] * d[3]});
}

ir::Value attention(const Scope& scope, ir::Value x, int64_t batch, const AttentionOptions& options) {
  const ir::NameScope named(scope.name());
  const int64_t features = x.dim(-1);
  const ir::Value qkv = dense(scope / "qkv", x, 3 * features, {options.qkv_bias, options.qkv_init});
  const ir::Values heads = split_heads(ir::checkpoint_name(qkv, "qkv"), batch, options.heads, 3);
  ir::Value q = heads[0], k = heads[1];
  if (options.qk_norm) {
    q = layer_norm(scope / "q_norm", q, options.epsilon);
    k = layer_norm(scope / "k_norm", k, options.epsilon);
  }
  const ir::Value mixed = dot_product_attention(scope, q, k, heads[2], options.attn_dropout);
  const ir::Value merged = ir::checkpoint_name(merge_heads(mixed), "attention");
  const ir::Value out = dense(scope / "proj", merged, features, {options.proj_bias, options.proj_init});
  return dropout(scope / "proj_drop", ir::checkpoint_name(out, "proj"), options.dropout);
}

}  // namespace tessera::nn
