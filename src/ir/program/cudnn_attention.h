#pragma once
// Attention by cuDNN's fused kernels, which hold no scores in memory. XLA's compiler for NVIDIA GPUs knows them as custom calls of
// reserved names; operands, results and configuration are those of JAX's dot_product_attention(implementation="cudnn"), and the
// gradient is summed up in a fixed order.

#include <compare>
#include <cstdint>

#include "ir/graph.h"

namespace tessera::ir {

// Of one example.
struct AttentionSizes {
  int64_t queries = 1, keys = 1, heads = 1, width = 1;

  auto operator<=>(const AttentionSizes&) const = default;
};

// What the names of the calls begin with.
inline constexpr const char* kCudnnAttention = "__cudnn$fmha";

// Whether cuDNN takes heads of this width, on every GPU that has bf16.
bool is_cudnn_width(int64_t width);

// softmax(q k^T / sqrt(width)) v of q [batch, queries, heads, width] and k, v [batch, keys, heads, width], all bf16: as q.
Value cudnn_attention(Value q, Value k, Value v);
// The cotangents of q, k and v for that of the result. Attention is computed again: its result and the logarithms of the softmax's
// sums are all that the backward kernel wants. XLA makes one call of this one and the first where nothing holds them apart.
Values cudnn_attention_gradient(Value q, Value k, Value v, Value cotangent);

}  // namespace tessera::ir
