#include "nn/max_pool.h"

#include <fmt/format.h>

#include "ir/functions.h"
#include "nn/sharding.h"

namespace tessera::nn {
namespace {

// XLA's code on the CPU goes through the windows number by number, forward and backward.
ir::Value pool_on_host(const Scope& scope, ir::Value x, int64_t window, int64_t stride, int64_t padding) {
  const HostKernels kernels = scope.kernels();
  const ShardMap shard_map(scope);
  const std::string attributes =
      fmt::format("window = {} : i64, stride = {} : i64, padding = {} : i64", window, stride, padding);
  const auto places = [=](int64_t size) { return (size + 2 * padding - window) / stride + 1; };
  const auto forward = [=](const ir::Values& v) {
    const Dims d = v[0].dims();
    return ir::ffi_call(kernels.max_pool, v, {{DType::kF32, {d[0], places(d[1]), places(d[2]), d[3]}}}, attributes);
  };
  const auto backward = [=](const ir::Values& v) {
    return ir::ffi_call(kernels.max_pool_gradient, v, {{DType::kF32, v[0].dims()}}, attributes);
  };
  const ir::Values pooled = shard_map({x}, {true}, forward);
  return ir::custom_gradient({x}, pooled, [=](const ir::Values& operands, const ir::Values&, const ir::Values& ct) {
    return shard_map({operands[0], ct[0]}, {true, true}, backward);
  })[0];
}

}  // namespace

ir::Value max_pool(const Scope& scope, ir::Value x, int64_t window, int64_t stride, int64_t padding) {
  const bool on_host = x.dtype() == DType::kF32 && !scope.kernels().max_pool.empty() && ShardMap(scope).share_of(x.dim(0)) > 0;
  return on_host ? pool_on_host(scope, x, window, stride, padding) : ir::max_pool2d(x, window, stride, padding);
}

}  // namespace tessera::nn
