#include "nn/conv.h"

#include <cmath>

#include "ir/functions.h"
#include "nn/dense.h"

namespace tessera::nn {
namespace {

ir::Value kernel_of(const Scope& scope, const Dims& dims, const ConvOptions& options) {
  if (!options.standardize) return scope.compute_param("kernel", dims, options.kernel_init);
  const ir::Value kernel = scope.param("kernel", dims, options.kernel_init);
  const ir::Value centred = kernel - ir::mean(kernel, {0, 1, 2}, true);
  const ir::Value variance = ir::mean(ir::square(centred), {0, 1, 2}, true);
  return ir::convert(centred * ir::rsqrt(variance + *options.standardize), scope.compute());
}

// On the CPU (attention is called on every one) a convolution is a product of patches: with XLA's code for convolutions a step
// of a ResNet-18 takes 17 times as long. Patches are window^2 times their picture, and recomputed in the backward pass, as all
// that is no product.
bool multiplies_patches(const Scope& scope, const ConvOptions& options) {
  return options.groups == 1 && scope.compute() == DType::kF32 && !scope.kernels().attention.empty();
}

// Where a window lies along an axis of `size`: size' places.
int64_t places(int64_t size, int64_t window, int64_t stride) { return (size - window) / stride + 1; }

// What the window sees at each place, in the order of the kernel's elements: [batch, h', w', window^2 c].
ir::Value patches(ir::Value x, int64_t window, int64_t stride, int64_t padding) {
  const Dims margin = {0, padding, padding, 0};
  if (padding > 0) x = ir::pad(x, ir::constant(0, x.dtype()), margin, margin);
  const int64_t height = stride * (places(x.dim(1), window, stride) - 1) + 1;
  const int64_t width = stride * (places(x.dim(2), window, stride) - 1) + 1;
  ir::Values seen;
  for (int64_t row = 0; row < window; ++row) {
    const ir::Value lines = ir::slice_axis(x, 1, row, row + height, stride);
    for (int64_t column = 0; column < window; ++column)
      seen.push_back(ir::slice_axis(lines, 2, column, column + width, stride));
  }
  return seen.size() == 1 ? seen[0] : ir::concatenate(seen, -1);
}

ir::Value product_of_patches(const Scope& scope, ir::Value x, ir::Value kernel, const ConvOptions& options) {
  const ir::Value seen = patches(x, kernel.dim(0), options.stride, options.padding);
  const int64_t elements = seen.dim(-1), features = kernel.dim(-1);
  const Dims grid = {seen.dim(0), seen.dim(1), seen.dim(2)};
  const ir::Value rows = ir::reshape(seen, {grid[0] * grid[1] * grid[2], elements});
  return ir::reshape(rows_product(scope, rows, ir::reshape(kernel, {elements, features})),
                     {grid[0], grid[1], grid[2], features});
}

ir::Value convolution(ir::Value x, ir::Value kernel, const ConvOptions& options) {
  ir::ConvOptions geometry;
  geometry.strides = {options.stride, options.stride};
  geometry.padding = {{options.padding, options.padding}, {options.padding, options.padding}};
  geometry.feature_groups = options.groups;
  return ir::conv2d_nhwc(x, kernel, geometry);
}

}  // namespace

Init kaiming_fan_out(int64_t features, int64_t window) {
  return init::normal(std::sqrt(2.0 / static_cast<double>(features * window * window)));
}

ir::Value conv(const Scope& scope, ir::Value x, int64_t features, int64_t window, const ConvOptions& options) {
  const ir::NameScope named(scope.name());
  const Dims kernel_dims = {window, window, x.dim(-1) / options.groups, features};
  const ir::Value kernel = kernel_of(scope, kernel_dims, options);
  x = ir::convert(x, scope.compute());
  ir::Value y =
      multiplies_patches(scope, options) ? product_of_patches(scope, x, kernel, options) : convolution(x, kernel, options);
  if (options.bias) y = y + scope.compute_param("bias", {features}, options.bias_init);
  return y;
}

}  // namespace tessera::nn
