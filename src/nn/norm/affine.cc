#include "nn/norm/affine.h"

#include "ir/ops.h"

namespace tessera::nn {

ir::Value affine(const Scope& scope, ir::Value x) {
  const ir::NameScope named(scope.name());
  const Dims dims = {1, 1, x.dim(-1)};
  const auto param = [&](const char* name, const Init& init) {
    return ir::reshape(scope.compute_param(name, dims, init), {x.dim(-1)});
  };
  return x * param("alpha", init::ones()) + param("beta", init::zeros());
}

}  // namespace tessera::nn
