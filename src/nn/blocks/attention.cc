#include "nn/blocks/attention.h"

#include <cmath>
#include <functional>
#include <limits>

#include "ir/composite.h"
#include "ir/composites.h"
#include "ir/functions.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/norm/layer_norm.h"

namespace tessera::nn {

namespace {

// The score of a key that is not seen: flax's, the lowest number.
constexpr double kUnseen = std::numeric_limits<float>::lowest();

ir::Value heads_first(ir::Value x) { return ir::transpose(x, {0, 2, 1, 3}); }

// `drop` is applied to the probabilities.
ir::Value attend(ir::Value q, ir::Value k, ir::Value v, ir::Value mask, const std::function<ir::Value(ir::Value)>& drop) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(-1)));
  ir::Value scores = ir::dot_general(heads_first(q) * scale, heads_first(k), {{0, 1}, {0, 1}, {3}, {3}});
  scores = ir::convert(scores, DType::kF32);
  if (mask) scores = ir::select(mask, scores, ir::constant(kUnseen));
  const ir::Value probabilities = drop(ir::convert(ir::softmax(scores), v.dtype()));
  return heads_first(ir::dot_general(probabilities, heads_first(v), {{0, 1}, {0, 1}, {3}, {2}}));
}

ir::Value plain_attention(ir::Value q, ir::Value k, ir::Value v) {
  return attend(q, k, v, {}, [](ir::Value probabilities) { return probabilities; });
}

// Nothing is masked, and nothing dropped.
bool is_plain(const Scope& scope, double rate, ir::Value mask) { return !mask && (rate == 0 || !scope.random()); }

}  // namespace

ir::Value dot_product_attention(const Scope& scope, ir::Value q, ir::Value k, ir::Value v, double rate, ir::Value mask) {
  if (!is_plain(scope, rate, mask)) {
    return attend(q, k, v, mask, [&](ir::Value probabilities) { return dropout(scope / "drop", probabilities, rate); });
  }
  const auto plain = [](const ir::Values& x) -> ir::Values { return {plain_attention(x[0], x[1], x[2])}; };
  return ir::composite(scope.target(), {"attention", ir::NoAttributes{}, plain}, {q, k, v})[0];
}

ir::Value causal_mask(int64_t length) {
  const TensorType type{DType::kI32, {1, 1, length, length}};
  return ir::compare(ir::Compare::kGe, ir::iota(type, 2), ir::iota(type, 3));
}

namespace {

// With an axis of its own for the heads in kernel and product, [features, parts, heads, width], a cut over a tensor axis leaves
// whole heads of each part together. Elsewhere two dimensions are better: tiles of heads and width are padded on a TPU.
ir::Value product_by_heads(const Scope& scope, ir::Value x, const HeadProjection& p) {
  const ir::NameScope named(scope.name());
  const int64_t width = p.features / p.heads, inputs = x.dim(-1);
  ir::Value kernel = scope.compute_param("kernel", {inputs, p.parts * p.features}, p.dense.kernel_init);
  kernel =
      shard(scope, ir::reshape(kernel, {inputs, p.parts, p.heads, width}), {Along::kNothing, Along::kNothing, Along::kTensor});
  ir::Value y = sum_gradient(scope, ir::dot_general(ir::convert(x, scope.compute()), kernel, {{}, {}, {1}, {0}}));
  if (p.dense.bias) {
    y = y + ir::reshape(scope.compute_param("bias", {p.parts * p.features}, p.dense.bias_init), {p.parts, p.heads, width});
  }
  return shard(scope, y, {Along::kBatch, Along::kNothing, Along::kTensor});
}

bool heads_are_split(const Scope& scope) { return scope.sharding() && scope.sharding()->mesh.size("tensor") > 1; }

// The parts side by side: [rows, parts * features], or [rows, parts, heads, width] where heads are split.
ir::Value project(const Scope& scope, ir::Value x, const HeadProjection& p) {
  const ir::Value y = heads_are_split(scope) ? product_by_heads(scope, x, p)
                                             : shard(scope, dense(scope, x, p.parts * p.features, p.dense), {Along::kBatch});
  return p.checkpoint ? ir::checkpoint_name(y, p.checkpoint) : y;
}

}  // namespace

ir::Values project_heads(const Scope& scope, ir::Value x, int64_t batch, const HeadProjection& p) {
  return ir::split_heads(project(scope, x, p), x.dim(0) / batch, p.parts, p.heads);
}

ir::Composite self_attention_composite(const ir::SelfAttention& shape) {
  return {"self_attention", shape, [=](const ir::Values& x) -> ir::Values {
            const ir::Values heads = ir::split_heads(x[0], shape.tokens, 3, shape.heads);
            return {ir::merge_heads(plain_attention(heads[0], heads[1], heads[2]))};
          }};
}

namespace {

ir::Value self_attention(const Scope& scope, ir::Value qkv, const ir::SelfAttention& shape) {
  return ir::composite(scope.target(), self_attention_composite(shape), {qkv})[0];
}

// With norms, dropout or a mask between the layers, or heads on several devices.
ir::Value heads_apart(const Scope& scope, ir::Value qkv, int64_t tokens, const AttentionOptions& options, ir::Value mask) {
  const ir::Values heads = ir::split_heads(qkv, tokens, 3, options.heads);
  ir::Value q = heads[0], k = heads[1];
  if (options.qk_norm) {
    q = layer_norm(scope / "q_norm", q, options.epsilon);
    k = layer_norm(scope / "k_norm", k, options.epsilon);
  }
  return ir::merge_heads(dot_product_attention(scope, q, k, heads[2], options.attn_dropout, mask));
}

Init with_parts(Init init, int64_t parts) {
  init.parts = parts;
  return init;
}

// What attention ends with: merged heads -> layer `proj` -> dropout.
ir::Value project_out(const Scope& scope, ir::Value mixed, int64_t features, const AttentionOptions& options) {
  const ir::Value merged = ir::checkpoint_name(shard(scope, mixed, {Along::kBatch, Along::kTensor}), "attention");
  const ir::Value out = dense(scope / "proj", merged, features, {options.proj_bias, options.proj_init});
  return dropout(scope / "proj_drop", ir::checkpoint_name(shard(scope, out, {Along::kBatch}), "proj"), options.dropout);
}

}  // namespace

ir::Value attention(const Scope& scope, ir::Value x, int64_t batch, const AttentionOptions& options, ir::Value mask) {
  const ir::NameScope named(scope.name());
  const int64_t features = x.dim(-1), tokens = x.dim(0) / batch;
  const HeadProjection projection{features, options.heads, 3, {options.qkv_bias, options.qkv_init}, "qkv"};
  const ir::Value qkv = project(scope / "qkv", x, projection);
  const bool plain = is_plain(scope, options.attn_dropout, mask) && !options.qk_norm && !heads_are_split(scope);
  const ir::Value mixed =
      plain ? self_attention(scope, qkv, {options.heads, tokens}) : heads_apart(scope, qkv, tokens, options, mask);
  return project_out(scope, mixed, features, options);
}

ir::Value attention_step(const Scope& scope, ir::Value x, KeysValues& cache, ir::Value position,
                         const AttentionOptions& options) {
  const ir::NameScope named(scope.name());
  const int64_t features = x.dim(-1), rows = x.dim(0), tokens = cache.keys.dim(1);
  const HeadProjection projection{features, options.heads, 3, {options.qkv_bias, options.qkv_init}, "qkv"};
  const ir::Values heads = project_heads(scope / "qkv", x, rows, projection);
  ir::Value q = heads[0], k = heads[1];
  if (options.qk_norm) {
    q = layer_norm(scope / "q_norm", q, options.epsilon);
    k = layer_norm(scope / "k_norm", k, options.epsilon);
  }
  const ir::Value first = ir::zeros({position.dtype(), {}});
  const ir::Values place = {first, position, first, first};
  cache.keys = ir::dynamic_update_slice(cache.keys, k, place);
  cache.values = ir::dynamic_update_slice(cache.values, heads[2], place);
  const ir::Value seen = ir::compare(ir::Compare::kLe, ir::iota({position.dtype(), {1, 1, 1, tokens}}, 3), position);
  const ir::Value mixed = dot_product_attention(scope, q, cache.keys, cache.values, 0, seen);
  return project_out(scope, ir::merge_heads(mixed), features, options);
}

namespace {

HeadProjection cross_projection(int64_t features, int64_t parts, const AttentionOptions& options) {
  return {features, options.heads, parts, {options.qkv_bias, with_parts(options.qkv_init, parts)}, "qkv"};
}

ir::Value cross_queries(const Scope& scope, ir::Value x, int64_t batch, const AttentionOptions& options) {
  const ir::Value q = project_heads(scope / "q", x, batch, cross_projection(x.dim(-1), 1, options))[0];
  return options.qk_norm ? layer_norm(scope / "q_norm", q, options.epsilon) : q;
}

ir::Value cross_mix(const Scope& scope, ir::Value q, const KeysValues& memory, const AttentionOptions& options) {
  const ir::Value mixed = ir::merge_heads(dot_product_attention(scope, q, memory.keys, memory.values, options.attn_dropout));
  return project_out(scope, mixed, q.dim(2) * q.dim(3), options);
}

}  // namespace

KeysValues cross_keys_values(const Scope& scope, ir::Value memory, int64_t batch, int64_t features,
                             const AttentionOptions& options) {
  const ir::Values kv = project_heads(scope / "kv", memory, batch, cross_projection(features, 2, options));
  return {options.qk_norm ? layer_norm(scope / "k_norm", kv[0], options.epsilon) : kv[0], kv[1]};
}

ir::Value cross_attention(const Scope& scope, ir::Value x, const KeysValues& memory, const AttentionOptions& options) {
  const ir::NameScope named(scope.name());
  return cross_mix(scope, cross_queries(scope, x, memory.keys.dim(0), options), memory, options);
}

ir::Value cross_attention(const Scope& scope, ir::Value x, ir::Value memory, int64_t batch, const AttentionOptions& options) {
  const ir::NameScope named(scope.name());
  const ir::Value q = cross_queries(scope, x, batch, options);
  return cross_mix(scope, q, cross_keys_values(scope, memory, batch, x.dim(-1), options), options);
}

}  // namespace tessera::nn
