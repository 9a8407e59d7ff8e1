#include "nn/attention.h"

#include <cmath>

#include "base/error.h"
#include "ir/functions.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/layer_norm.h"

namespace tessera::nn {

ir::Value dot_product_attention(const Scope& scope, ir::Value q, ir::Value k, ir::Value v, double rate) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(-1)));
  const ir::Value scores = ir::dot_general(q * scale, k, {{0, 1}, {0, 1}, {3}, {3}});
  ir::Value probabilities = ir::convert(ir::softmax(ir::convert(scores, DType::kF32)), v.dtype());
  probabilities = dropout(scope / "drop", probabilities, rate);
  return ir::dot_general(probabilities, v, {{0, 1}, {0, 1}, {3}, {2}});
}

ir::Values split_heads(ir::Value x, int64_t batch, int64_t heads, int64_t parts) {
  const int64_t tokens = x.dim(0) / batch, width = x.dim(1) / (parts * heads);
  TESSERA_CHECK(tokens * batch == x.dim(0) && width * parts * heads == x.dim(1), "{} split for {} images into {} x {} heads",
                to_string(x.dims()), batch, parts, heads);
  x = ir::transpose(ir::reshape(x, {batch, tokens, parts, heads, width}), {2, 0, 3, 1, 4});
  ir::Values split;
  for (int64_t i = 0; i < parts; ++i) split.push_back(ir::squeeze(ir::slice_axis(x, 0, i, i + 1), 0));
  return split;
}

ir::Value merge_heads(ir::Value x) {
  const Dims d = x.dims();
  return ir::reshape(ir::transpose(x, {0, 2, 1, 3}), {d[0] * d[2], d[1] * d[3]});
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
