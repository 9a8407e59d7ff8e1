#include "nn/dense.h"

#include "ir/ops.h"

namespace tessera::nn {

ir::Value dense(const Scope& scope, ir::Value x, int64_t features, const DenseOptions& options) {
  const ir::NameScope named(scope.name());
  const ir::Value kernel = scope.compute_param("kernel", {x.dim(-1), features}, options.kernel_init);
  ir::Value y = sum_gradient(scope, ir::matmul(ir::convert(x, scope.compute()), kernel));
  if (options.bias) y = y + scope.compute_param("bias", {features}, options.bias_init);
  return y;
}

}  // namespace tessera::nn
