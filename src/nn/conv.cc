#include "nn/conv.h"

#include <cmath>

#include "ir/composite.h"
#include "ir/composites.h"
#include "ir/functions.h"

namespace tessera::nn {
namespace {

ir::Value kernel_of(const Scope& scope, const Dims& dims, const ConvOptions& options) {
  if (!options.standardize) return scope.compute_param("kernel", dims, options.kernel_init);
  const ir::Value kernel = scope.param("kernel", dims, options.kernel_init);
  const ir::Value centred = kernel - ir::mean(kernel, {0, 1, 2}, true);
  const ir::Value variance = ir::mean(ir::square(centred), {0, 1, 2}, true);
  return ir::convert(centred * ir::rsqrt(variance + *options.standardize), scope.compute());
}

ir::Value convolution(const Scope& scope, ir::Value x, ir::Value kernel, const ConvOptions& options) {
  ir::ConvOptions geometry;
  geometry.strides = {options.stride, options.stride};
  geometry.padding = {{options.padding, options.padding}, {options.padding, options.padding}};
  geometry.feature_groups = options.groups;
  const auto convolve = [=](const ir::Values& v) -> ir::Values { return {ir::conv2d_nhwc(v[0], v[1], geometry)}; };
  const bool depthwise = options.groups > 1 && options.groups == x.dim(3) && options.groups == kernel.dim(3);
  const ir::Window window{kernel.dim(0), options.stride, options.padding};
  return ir::composite(scope.target(), {depthwise ? "depthwise" : "convolution", window, convolve}, {x, kernel})[0];
}

}  // namespace

Init kaiming_fan_out(int64_t features, int64_t window) {
  return init::normal(std::sqrt(2.0 / static_cast<double>(features * window * window)));
}

ir::Value conv(const Scope& scope, ir::Value x, int64_t features, int64_t window, const ConvOptions& options) {
  const ir::NameScope named(scope.name());
  const Dims kernel_dims = {window, window, x.dim(-1) / options.groups, features};
  const ir::Value kernel = kernel_of(scope, kernel_dims, options);
  ir::Value y = convolution(scope, ir::convert(x, scope.compute()), kernel, options);
  if (options.bias) y = y + scope.compute_param("bias", {features}, options.bias_init);
  return y;
}

}  // namespace tessera::nn
