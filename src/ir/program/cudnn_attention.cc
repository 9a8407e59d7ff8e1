#include "ir/program/cudnn_attention.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/ops.h"

namespace tessera::ir {
namespace {

// Dimensions of arrays [batch, tokens, heads, width] and of scores [batch, heads, queries, keys].
constexpr int kTokens = 1, kWidth = 3, kQueries = 2, kKeys = 3;
constexpr std::string_view kOfArrays = R"(["0", "2"])", kOfScores = R"(["0", "1"])";  // batch and heads

// A product's DotDimensionNumbers, protobuf's JSON.
std::string product(std::string_view name, std::string_view lhs_batch, int lhs, std::string_view rhs_batch, int rhs) {
  return fmt::format(
      R"("{}": {{"lhs_contracting_dimensions": ["{}"], "rhs_contracting_dimensions": ["{}"], "lhs_batch_dimensions": {}, )"
      R"("rhs_batch_dimensions": {}}})",
      name, lhs, rhs, lhs_batch, rhs_batch);
}

std::string forward_products() {
  return fmt::format("{}, {}", product("bmm1_dot_dimension_numbers", kOfArrays, kWidth, kOfArrays, kWidth),
                     product("bmm2_dot_dimension_numbers", kOfScores, kKeys, kOfArrays, kTokens));
}

// Programs that make these calls are compiled to be deterministic. XLA's compiler then sets this in the first of several equal calls,
// compiles that one, and does not find what it compiled for the others, unless they all say so from the start.
constexpr std::string_view kDeterministic = R"("force_deterministic": true)";

std::string backward_products() {
  return fmt::format("{}, {}, {}, {}, {}",
                     product("bmm1_grad_gemm1_dot_dimension_numbers", kOfScores, kQueries, kOfArrays, kTokens),
                     product("bmm1_grad_gemm2_dot_dimension_numbers", kOfScores, kKeys, kOfArrays, kTokens),
                     product("bmm2_grad_gemm1_dot_dimension_numbers", kOfScores, kQueries, kOfArrays, kTokens),
                     product("bmm2_grad_gemm2_dot_dimension_numbers", kOfArrays, kWidth, kOfArrays, kWidth), kDeterministic);
}

// xla.gpu.GpuBackendConfig (xla/service/gpu/backend_configs.proto) as JSON. The compiler asks cuDNN for algorithm and workspace.
std::string configuration(Value q, Value k, const std::string& products) {
  return fmt::format(
      R"({{"operation_queue_id": "0", "cudnn_fmha_backend_config": {{"algorithm": {{"algo_id": "0", )"
      R"("math_type": "TENSOR_OP_MATH", "tuning_knobs": {{"17": "1", "24": "0"}}, "is_cudnn_frontend": true, )"
      R"("workspace_size": "0"}}, "fmha_scale": {:.17g}, "intermediate_tensor_shape": {{"element_type": "BF16", )"
      R"("dimensions": ["{}", "{}", "{}", "{}"], "tuple_shapes": [], "layout": {{"minor_to_major": ["3", "2", "1", "0"]}}, )"
      R"("is_dynamic_dimension": [false, false, false, false]}}, "is_flash_attention": true, "mask_type": "NO_MASK", {}, )"
      R"("dropout_rate": 0.0}}}})",
      1 / std::sqrt(static_cast<double>(q.dim(kWidth))), q.dim(0), q.dim(2), q.dim(kTokens), k.dim(kTokens), products);
}

// Arrays come back as [batch, heads, tokens, width], in the memory order of [batch, tokens, heads, width].
TensorType heads_first(Value x) { return {x.dtype(), {x.dim(0), x.dim(2), x.dim(1), x.dim(3)}}; }
const Dims kTokensFirstInMemory = {3, 1, 2, 0};
Value tokens_first(Value x) { return transpose(x, {0, 2, 1, 3}); }

const TensorType kWorkspace = {DType::kU8, {0}};  // the compiler puts in how much it is

struct Forward {
  Value out, log_sums;  // log_sums [batch, heads, queries], f32
};

Forward forward(Value q, Value k, Value v) {
  TESSERA_CHECK(q.dtype() == DType::kBF16 && k.type() == v.type() && k.dtype() == DType::kBF16, "attention of {}, {} and {}",
                to_string(q.type()), to_string(k.type()), to_string(v.type()));
  const TensorType log_sums = {DType::kF32, {q.dim(0), q.dim(2), q.dim(kTokens)}};
  const Values results = compiler_call("__cudnn$fmhaSoftmax", {q, k, v}, {heads_first(q), log_sums, kWorkspace},
                                       configuration(q, k, forward_products()), {kTokensFirstInMemory, {2, 1, 0}, {0}});
  return {tokens_first(results[0]), results[1]};
}

}  // namespace

bool is_cudnn_width(int64_t width) { return width % 8 == 0 && width <= 128; }

Value cudnn_attention(Value q, Value k, Value v) { return forward(q, k, v).out; }

Values cudnn_attention_gradient(Value q, Value k, Value v, Value cotangent) {
  const Forward again = forward(q, k, v);
  const Values results =
      compiler_call("__cudnn$fmhaSoftmaxBackward", {q, k, v, again.log_sums, cotangent, again.out},
                    {heads_first(q), heads_first(k), heads_first(v), kWorkspace}, configuration(q, k, backward_products()),
                    {kTokensFirstInMemory, kTokensFirstInMemory, kTokensFirstInMemory, {0}});
  return {tokens_first(results[0]), tokens_first(results[1]), tokens_first(results[2])};
}

}  // namespace tessera::ir
