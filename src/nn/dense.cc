#include "nn/dense.h"

#include "ir/host_calls.h"
#include "ir/ops.h"

namespace tessera::nn {
namespace {

// Whether each of several devices is to multiply its own rows, so that it may call the host's kernel (ir/host_calls.h).
bool by_own_rows(const Scope& scope, ir::Value x, ir::Value kernel) {
  if (!scope.sharding() || scope.kernels().product.empty() || x.rank() != 2) return false;
  return kernel.dtype() == DType::kF32 && ir::worth_a_call(ShardMap(scope).share_of(x.dim(0)) * kernel.dim(0) * kernel.dim(1));
}

// x kernel, forward and backward. Of the kernel's gradient every device has its rows' share, and the shares are added up.
ir::Value product_of_own_rows(const Scope& scope, ir::Value x, ir::Value kernel) {
  const ShardMap shard_map(scope);
  const auto forward = [](const ir::Values& v) -> ir::Values { return {ir::matmul(v[0], v[1])}; };
  const auto to_x = [](const ir::Values& v) -> ir::Values { return {ir::dot_general(v[0], v[1], {{}, {}, {1}, {1}})}; };
  const auto to_kernel = [](const ir::Values& v) -> ir::Values {
    return {ir::reshape(ir::dot_general(v[0], v[1], {{}, {}, {0}, {0}}), {1, v[0].dim(1), v[1].dim(1)})};
  };
  const ir::Values y = shard_map({x, kernel}, {true, false}, forward);
  return ir::custom_gradient({x, kernel}, y, [=](const ir::Values& in, const ir::Values&, const ir::Values& ct) -> ir::Values {
    const ir::Values dx = shard_map({ct[0], in[1]}, {true, false}, to_x);
    const ir::Values shares = shard_map({in[0], ct[0]}, {true, true}, to_kernel);
    return {dx[0], ir::sum(shares[0], {0})};
  })[0];
}

}  // namespace

ir::Value rows_product(const Scope& scope, ir::Value x, ir::Value kernel) {
  if (by_own_rows(scope, x, kernel)) return product_of_own_rows(scope, x, kernel);
  return sum_gradient(scope, ir::matmul(x, kernel));
}

ir::Value dense(const Scope& scope, ir::Value x, int64_t features, const DenseOptions& options) {
  const ir::NameScope named(scope.name());
  const ir::Value kernel = scope.compute_param("kernel", {x.dim(-1), features}, options.kernel_init);
  ir::Value y = rows_product(scope, ir::convert(x, scope.compute()), kernel);
  if (options.bias) y = y + scope.compute_param("bias", {features}, options.bias_init);
  return y;
}

}  // namespace tessera::nn
