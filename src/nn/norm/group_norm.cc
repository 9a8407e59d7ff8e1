#include "nn/norm/group_norm.h"

#include "base/error.h"
#include "ir/functions.h"

namespace tessera::nn {

ir::Value group_norm(const Scope& scope, ir::Value x, int64_t groups, double epsilon, const Init& scale_init) {
  const ir::NameScope named(scope.name());
  const Dims dims = x.dims();
  const int64_t features = dims.back();
  TESSERA_CHECK(dims.size() == 4 && features % groups == 0, "{} groups of {}", groups, to_string(dims));
  const ir::Value grouped = ir::reshape(ir::convert(x, DType::kF32), {dims[0], dims[1] * dims[2], groups, features / groups});
  const ir::Value centred = grouped - ir::mean(grouped, {1, 3}, true);
  const ir::Value normal = ir::reshape(centred * ir::rsqrt(ir::mean(ir::square(centred), {1, 3}, true) + epsilon), dims);
  const ir::Value scale = scope.param("scale", {features}, scale_init);
  return ir::convert(normal * scale + scope.param("bias", {features}, init::zeros()), x.dtype());
}

}  // namespace tessera::nn
