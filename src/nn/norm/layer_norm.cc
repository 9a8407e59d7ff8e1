#include "nn/norm/layer_norm.h"

#include "ir/functions.h"

namespace tessera::nn {

ir::Value layer_norm(const Scope& scope, ir::Value x, double epsilon, bool bias) {
  const ir::NameScope named(scope.name());
  const Dims features = {x.dim(-1)};
  const ir::Value normal = ir::standardize(ir::convert(x, DType::kF32), epsilon);
  const ir::Value scale = scope.param("scale", features, init::ones());
  if (!bias) return ir::convert(normal * scale, x.dtype());
  return ir::convert(normal * scale + scope.param("bias", features, init::zeros()), x.dtype());
}

}  // namespace tessera::nn
