#pragma once
// Functions composed from the primitives of ops.h: what models and objectives call.

#include <utility>
#include <vector>

#include "ir/ops.h"
#include "mesh/partition.h"

namespace tessera::ir {

// Along one axis; computed in the operand's dtype (convert to f32 first where that matters).
Value softmax(Value x, int64_t axis = -1);
Value log_softmax(Value x, int64_t axis = -1);

// (x - mean) / sqrt(var + epsilon) over the last axis, in f32, given back in x's dtype; no scale or bias.
Value standardize(Value x, double epsilon);

Value relu(Value x);        // its gradient at 0 is 0, as torch's and jax.nn's (that of maximum is a half)
Value gelu_exact(Value x);  // x/2 (1 + erf(x/sqrt 2))
Value gelu_tanh(Value x);   // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
Value softplus(Value x);    // log(1 + exp(x)), without overflow: minus the logarithm of the sigmoid of -x

// Parts of [batch * tokens, parts * heads * width], or [batch * tokens, parts, heads, width], such as queries, keys and values: each
// [batch, tokens, heads, width].
Values split_heads(Value x, int64_t tokens, int64_t parts, int64_t heads);
Value merge_heads(Value x);  // [batch, tokens, heads, width] -> [batch * tokens, heads * width]

Value square(Value x);
Value sum_over_rows(Value x);                                // over all dimensions but the last
Value pack(const Values& scalars);                           // [their number]
Value one_hot(Value indices, int64_t classes, DType dtype);  // [.., ] -> [.., classes]; an index outside gives zeros
Value take(Value table, Value indices);                      // rows of table[n, ..] at integer indices[..]; indices are clamped
Value argmax(Value x, int64_t axis);                         // i32; the first on a tie; no gradient
// Values and i32 indices of the k largest along the last axis, descending; ties keep the lower index first.
std::pair<Value, Value> top_k(Value x, int64_t k);
Value max_pool2d(Value x, int64_t window, int64_t stride, int64_t padding = 0);  // NHWC
// The cotangent of x for that of its max_pool2d, summed up in f32. The first of several largest numbers gets all. In two passes: where
// each window's largest is, and what comes of the windows that see a number. Windows are up to kMaxPoolWindow wide.
inline constexpr int64_t kMaxPoolWindow = 15;
Value max_pool2d_gradient(Value x, Value cotangent, int64_t window, int64_t stride, int64_t padding);
// sqrt(sum of squares), f32 scalar. `specs`: where each array lies on the mesh, or nothing.
Value global_norm(const Values& xs, const std::vector<mesh::PartitionSpec>& specs = {});

}  // namespace tessera::ir
