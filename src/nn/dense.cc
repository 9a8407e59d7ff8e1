#include "nn/dense.h"

#include "ir/ops.h"

namespace tessera::nn {

ir::Value rows_product(const Scope& scope, ir::Value x, ir::Value kernel) {
  return sum_gradient(scope, ir::rows_of_batch(ir::matmul(x, kernel)));
}

ir::Value dense(const Scope& scope, ir::Value x, int64_t features, const DenseOptions& options) {
  const ir::NameScope named(scope.name());
  const ir::Value kernel = scope.compute_param("kernel", {x.dim(-1), features}, options.kernel_init);
  ir::Value y = rows_product(scope, ir::convert(x, scope.compute()), kernel);
  if (options.bias) y = y + scope.compute_param("bias", {features}, options.bias_init);
  return y;
}

}  // namespace tessera::nn
