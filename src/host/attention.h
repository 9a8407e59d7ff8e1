#pragma once
// Softmax attention on the host, one head at a time, so that scores and probabilities never leave a core's cache. Products are
// those of host/units/unit.h on the vector units; scores, probabilities and sums are f32.

#include <cstdint>

#include "base/shape.h"
#include "host/units/parallel_for.h"

namespace tessera::host {

// Queries are [batch, queries, heads, width], keys and values [batch, keys, heads, width], dense and row-major but for the
// tokens of queries, keys and values, which may stand further apart: in one array that holds all three.
struct AttentionShape {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0;
  int64_t stride = heads * width;  // numbers from a query, key or value to the next, and from a cotangent of one
  DType dtype = DType::kF32;       // of all arrays: f32 or bf16
};

// out [batch, queries, heads, width] = softmax(q k^T / sqrt(width)) v. The result does not depend on the number of threads.
void attention(const AttentionShape& shape, const void* q, const void* k, const void* v, void* out,
               const ParallelFor& parallel);

// The cotangents of q, k and v, from that of out. With P the probabilities and S the scores: dv = P^T dout, dP = dout v^T,
// dS = P * (dP - rowsum(P * dP)), dq = dS k / sqrt(width), dk = dS^T q / sqrt(width). P is computed again.
void attention_gradient(const AttentionShape& shape, const void* q, const void* k, const void* v, const void* dout, void* dq,
                        void* dk, void* dv, const ParallelFor& parallel);

}  // namespace tessera::host
