#include "nn/conv.h"

namespace tessera::nn {

ir::Value conv(const Scope& scope, ir::Value x, int64_t features, int64_t window, const ConvOptions& options) {
  const ir::NameScope named(scope.name());
  const Dims kernel_dims = {window, window, x.dim(-1) / options.groups, features};
  const ir::Value kernel = scope.compute_param("kernel", kernel_dims, options.kernel_init);
  ir::ConvOptions geometry;
  geometry.strides = {options.stride, options.stride};
  geometry.padding = {{options.padding, options.padding}, {options.padding, options.padding}};
  geometry.feature_groups = options.groups;
  ir::Value y = ir::conv2d_nhwc(ir::convert(x, scope.compute()), kernel, geometry);
  if (options.bias) y = y + scope.compute_param("bias", {features}, options.bias_init);
  return y;
}

}  // namespace tessera::nn
