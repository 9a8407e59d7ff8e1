#pragma once
// The calls of a layer (x, kernel) -> y on arrays of f32 or bf16, for every kind of convolution.

#include <optional>

#include "host/call.h"
#include "host/product.h"

namespace tessera::host {

// `Kind` has static functions: of(call, x, kernel, y), the convolution over x to y, or nothing where they, the kernel and the window
// do not go together; and forward, input_gradient and kernel_gradient, as in convolution.h.
template <class Kind>
bool forward_call(const Call& call) {
  if (!call.has_floats(2, 1)) return false;
  const auto x = call.floats(0), kernel = call.floats(1);
  const auto y = call.float_result(0);
  const auto c = Kind::of(call, x, kernel, y);
  if (!c || kernel.dtype != x.dtype) return false;
  Kind::forward(*c, x.data, kernel.data, y.data, call.parallel());
  return true;
}

template <class Kind>
bool input_gradient_call(const Call& call) {
  if (!call.has_floats(2, 1)) return false;
  const auto dy = call.floats(0), kernel = call.floats(1);
  const auto dx = call.float_result(0);
  const auto c = Kind::of(call, dx, kernel, dy);
  if (!c || kernel.dtype != dx.dtype) return false;
  Kind::input_gradient(*c, dy.data, kernel.data, dx.data, call.parallel());
  return true;
}

template <class Kind>
bool kernel_gradient_call(const Call& call) {
  if (!call.has_floats(2, 1)) return false;
  const auto x = call.floats(0), dy = call.floats(1);
  const auto dkernel = call.float_result(0);
  const auto c = Kind::of(call, x, dkernel, dy);
  if (!c) return false;
  Kind::kernel_gradient(*c, x.data, dy.data, {dkernel.data, dkernel.dtype}, call.parallel());
  return true;
}

}  // namespace tessera::host
