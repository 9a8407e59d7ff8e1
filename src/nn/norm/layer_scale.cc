#include "nn/norm/layer_scale.h"

#include "ir/ops.h"

namespace tessera::nn {

ir::Value layer_scale(const Scope& scope, ir::Value x, double initial) {
  const ir::NameScope named(scope.name());
  return x * ir::convert(scope.param("gamma", {x.dim(-1)}, init::constant(initial)), x.dtype());
}

}  // namespace tessera::nn
