#include "nn/norm/response_norm.h"

#include "ir/functions.h"

namespace tessera::nn {

ir::Value response_norm(const Scope& scope, ir::Value x) {
  const ir::NameScope named(scope.name());
  const Dims features = {x.dim(-1)};
  const ir::Value wide = ir::convert(x, DType::kF32);
  const ir::Value norm = ir::sqrt(ir::sum(ir::square(wide), {1, 2}, true));
  const ir::Value share = norm / (ir::mean(norm, {-1}, true) + 1e-6);
  const ir::Value scale = scope.param("scale", features, init::zeros());
  return ir::convert(wide + scope.param("bias", features, init::zeros()) + scale * (wide * share), x.dtype());
}

}  // namespace tessera::nn
