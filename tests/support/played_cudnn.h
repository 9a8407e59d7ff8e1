#pragma once
// cuDNN's part in a program for a GPU, played by ops, so that a CPU runs it.

#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "ir/op_entries.h"
#include "ir/ops.h"
#include "ir/passes/rewrite.h"

namespace tessera::testing {

inline ir::Value by_heads(ir::Value x) { return ir::convert(ir::transpose(x, {0, 2, 1, 3}), DType::kF32); }
inline double scale_of(ir::Value q) { return 1 / std::sqrt(static_cast<double>(q.dim(3))); }
inline ir::Value attention_scores(ir::Value q, ir::Value k) {
  return scale_of(q) * ir::dot_general(by_heads(q), by_heads(k), {{0, 1}, {0, 1}, {3}, {3}});
}
inline ir::Value over_keys(ir::Value x, int64_t keys) {
  return ir::broadcast_in_dim(x, {x.dim(0), x.dim(1), x.dim(2), keys}, {0, 1, 2});
}

// Of q, k and v.
inline ir::Values play_forward(const ir::Values& x) {
  const ir::Value scores = attention_scores(x[0], x[1]), most = ir::reduce_max(scores, {3}, true);
  const ir::Value log_sums =
      ir::log(ir::sum(ir::exp(scores - most), {3})) + ir::reshape(most, {most.dim(0), most.dim(1), most.dim(2)});
  const ir::Value p = ir::exp(scores - over_keys(log_sums, scores.dim(3)));
  return {ir::convert(ir::dot_general(p, by_heads(x[2]), {{0, 1}, {0, 1}, {3}, {2}}), DType::kBF16), log_sums,
          ir::constant(0, DType::kU8, {0})};
}

// Of q, k, v, the logarithms of sums, the cotangent and the result.
inline ir::Values play_backward(const ir::Values& x) {
  const ir::Value scores = attention_scores(x[0], x[1]), ct = by_heads(x[4]);
  const int64_t keys = scores.dim(3);
  const ir::Value p = ir::exp(scores - over_keys(x[3], keys));
  const ir::Value dp = ir::dot_general(ct, by_heads(x[2]), {{0, 1}, {0, 1}, {3}, {3}});
  const ir::Value ds = scale_of(x[0]) * p * (dp - over_keys(ir::sum(ct * by_heads(x[5]), {3}), keys));
  return {ir::convert(ir::dot_general(ds, by_heads(x[1]), {{0, 1}, {0, 1}, {3}, {2}}), DType::kBF16),
          ir::convert(ir::dot_general(ds, by_heads(x[0]), {{0, 1}, {0, 1}, {2}, {2}}), DType::kBF16),
          ir::convert(ir::dot_general(p, ct, {{0, 1}, {0, 1}, {2}, {2}}), DType::kBF16), ir::constant(0, DType::kU8, {0})};
}

// The results of a call of cuDNN's attention, or of its gradient.
inline ir::Values play_cudnn(const ir::Values& operands) {
  return operands.size() == 3 ? play_forward(operands) : play_backward(operands);
}

// A copy of a finished graph (ir/program/program.h) with the results of `play` in the place of its calls.
inline std::unique_ptr<ir::Graph> with_calls_played(const ir::Graph& finished,
                                                    const std::function<ir::Values(const ir::Values&)>& play = play_cudnn) {
  return ir::rewrite(finished, [&](const ir::Node& node, const ir::Values& operands) -> std::optional<ir::Values> {
    return node.op == &ir::kOpCustomCall ? std::optional(play(operands)) : std::nullopt;
  });
}

}  // namespace tessera::testing
