#include "nn/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/functions.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/layer_norm.h"

namespace tessera::nn {

namespace {

// The score of a key that is not seen: flax's, the lowest number.
constexpr double kUnseen = std::numeric_limits<float>::lowest();

// The same without dropout by a kernel of the host, which wants the tokens before the heads: [batch, tokens, heads, width].
ir::Value host_attention(const Scope& scope, ir::Value q, ir::Value k, ir::Value v) {
  const HostKernels kernels = scope.kernels();
  const ShardMap shard_map(scope);
  const auto forward = [=](const ir::Values& x) { return ir::ffi_call(kernels.attention, x, {x[0].type()}); };
  const auto backward = [=](const ir::Values& x) {
    return ir::ffi_call(kernels.attention_gradient, x, {x[0].type(), x[1].type(), x[2].type()});
  };
  const ir::Values out = shard_map({q, k, v}, {true, true, true}, forward);
  return ir::custom_gradient({q, k, v}, out, [=](const ir::Values& x, const ir::Values&, const ir::Values& ct) {
    return shard_map({x[0], x[1], x[2], ct[0]}, {true, true, true, true}, backward);
  })[0];
}

// Devices take whole examples.
bool host_attention_fits(const Scope& scope, DType dtype, int64_t batch, double rate, ir::Value mask) {
  return !mask && !scope.kernels().attention.empty() && dtype == DType::kF32 && (rate == 0 || !scope.random()) &&
         ShardMap(scope).share_of(batch) > 0;
}

}  // namespace

ir::Value dot_product_attention(const Scope& scope, ir::Value q, ir::Value k, ir::Value v, double rate, ir::Value mask) {
  if (host_attention_fits(scope, v.dtype(), v.dim(0), rate, mask)) return host_attention(scope, q, k, v);
  const auto heads_first = [](ir::Value x) { return ir::transpose(x, {0, 2, 1, 3}); };
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(-1)));
  ir::Value scores = ir::dot_general(heads_first(q) * scale, heads_first(k), {{0, 1}, {0, 1}, {3}, {3}});
  scores = ir::convert(scores, DType::kF32);
  if (mask) scores = ir::select(mask, scores, ir::constant(kUnseen));
  ir::Value probabilities = ir::convert(ir::softmax(scores), v.dtype());
  probabilities = dropout(scope / "drop", probabilities, rate);
  return heads_first(ir::dot_general(probabilities, heads_first(v), {{0, 1}, {0, 1}, {3}, {2}}));
}

ir::Value causal_mask(int64_t length) {
  const TensorType type{DType::kI32, {1, 1, length, length}};
  return ir::compare(ir::Compare::kGe, ir::iota(type, 2), ir::iota(type, 3));
}

namespace {

// With an axis of its own for the heads in kernel and product, [features, parts, heads, width], a cut over a tensor axis leaves
// whole heads of each part together. Elsewhere two dimensions are better: tiles of heads and width are padded on a TPU.
ir::Value product_by_heads(const Scope& scope, ir::Value x, const HeadProjection& p) {
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

}  // namespace

ir::Values project_heads(const Scope& scope, ir::Value x, int64_t batch, const HeadProjection& p) {
  const ir::NameScope named(scope.name());
  const int64_t tokens = x.dim(0) / batch, width = p.features / p.heads;
  const bool by_heads = scope.sharding() && scope.sharding()->mesh.size("tensor") > 1;
  ir::Value y = by_heads ? product_by_heads(scope, x, p) : dense(scope, x, p.parts * p.features, p.dense);
  if (!by_heads) y = shard(scope, y, {Along::kBatch});
  if (p.checkpoint) y = ir::checkpoint_name(y, p.checkpoint);
  ir::Values split;
  for (int64_t i = 0; i < p.parts; ++i) {
    const int64_t size = by_heads ? 1 : p.features;
    split.push_back(ir::reshape(ir::slice_axis(y, 1, i * size, (i + 1) * size), {batch, tokens, p.heads, width}));
  }
  return split;
}

ir::Value merge_heads(ir::Value x) {
  const Dims d = x.dims();
  return ir::reshape(x, {d[0] * d[1], d[2] * d[3]});
}

namespace {

// Attention of one array of queries, keys and values by a kernel of the host, which saves taking it apart.
ir::Value host_self_attention(const Scope& scope, ir::Value qkv, int64_t batch, int64_t heads) {
  const HostKernels kernels = scope.kernels();
  const ShardMap shard_map(scope);
  const int64_t tokens = qkv.dim(0) / batch;
  const auto sizes = [=](ir::Value rows) {
    return fmt::format("batch = {} : i64, heads = {} : i64", rows.dim(0) / tokens, heads);
  };
  const auto forward = [=](const ir::Values& x) {
    const TensorType type{DType::kF32, {x[0].dim(0), x[0].dim(1) / 3}};
    return ir::ffi_call(kernels.self_attention, x, {type}, sizes(x[0]));
  };
  const auto backward = [=](const ir::Values& x) {
    return ir::ffi_call(kernels.self_attention_gradient, x, {x[0].type()}, sizes(x[0]));
  };
  const ir::Values out = shard_map({qkv}, {true}, forward);
  return ir::custom_gradient({qkv}, out, [=](const ir::Values& x, const ir::Values&, const ir::Values& ct) {
    return shard_map({x[0], ct[0]}, {true, true}, backward);
  })[0];
}

ir::Value heads_apart(const Scope& scope, ir::Value x, int64_t batch, const AttentionOptions& options, ir::Value mask) {
  const HeadProjection projection{x.dim(-1), options.heads, 3, {options.qkv_bias, options.qkv_init}, "qkv"};
  const ir::Values heads = project_heads(scope / "qkv", x, batch, projection);
  ir::Value q = heads[0], k = heads[1];
  if (options.qk_norm) {
    q = layer_norm(scope / "q_norm", q, options.epsilon);
    k = layer_norm(scope / "k_norm", k, options.epsilon);
  }
  return merge_heads(dot_product_attention(scope, q, k, heads[2], options.attn_dropout, mask));
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
  const int64_t features = x.dim(-1);
  ir::Value mixed;
  if (host_attention_fits(scope, x.dtype(), batch, options.attn_dropout, mask) && !options.qk_norm) {
    const ir::Value qkv = dense(scope / "qkv", x, 3 * features, {options.qkv_bias, options.qkv_init});
    mixed = host_self_attention(scope, ir::checkpoint_name(qkv, "qkv"), batch, options.heads);
  } else {
    mixed = heads_apart(scope, x, batch, options, mask);
  }
  return project_out(scope, mixed, features, options);
}

ir::Value cross_attention(const Scope& scope, ir::Value x, ir::Value memory, int64_t batch, const AttentionOptions& options) {
  const ir::NameScope named(scope.name());
  const int64_t features = x.dim(-1);
  const auto projection = [&](int64_t parts) {
    return HeadProjection{features, options.heads, parts, {options.qkv_bias, with_parts(options.qkv_init, parts)}, "qkv"};
  };
  ir::Value q = project_heads(scope / "q", x, batch, projection(1))[0];
  const ir::Values kv = project_heads(scope / "kv", memory, batch, projection(2));
  ir::Value k = kv[0];
  if (options.qk_norm) {
    q = layer_norm(scope / "q_norm", q, options.epsilon);
    k = layer_norm(scope / "k_norm", k, options.epsilon);
  }
  const ir::Value mixed = merge_heads(dot_product_attention(scope, q, k, kv[1], options.attn_dropout));
  return project_out(scope, mixed, features, options);
}

}  // namespace tessera::nn
