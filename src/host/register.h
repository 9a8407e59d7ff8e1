#pragma once
// Makes the kernels of this folder callable from compiled programs, through the plugin's foreign-function extension.
//
// Arrays are f32, dense and row-major.
//   product             (a, b) -> c, with the attributes batch, m, n, k (i64), a_transposed and b_transposed (bool) of
//                       host::Product, whatever the ranks of the arrays
//   attention           (q, k, v [batch, tokens, heads, width]) -> as q
//   attention_gradient  (q, k, v, cotangent of the result) -> (cotangents of q, k and v)
//   self_attention      (qkv [batch * tokens, 3 * heads * width]) -> [batch * tokens, heads * width], with the attributes batch
//                       and heads (i64)
//   self_attention_gradient  (qkv, cotangent of the result) -> (cotangent of qkv)
//   dense               (x, kernel, bias[, scale, offset][, residual]) -> y, with the attributes rows, in, out (i64), input
//                       ("plain", "norm", "gelu", "gelu_tanh") and epsilon (f64) of host::Dense; scale and offset with a
//                       norm
//   dense_gradient      (dy, x, kernel[, scale, offset[, add]]) -> (dx, dkernel, dbias[, dscale, doffset])
//   patches             (x [batch, height, width, channels]) -> [batch, rows, columns, window^2 channels], with the attributes
//                       window, stride and padding (i64) of host::Patches
//   patches_gradient    (cotangent of the result) -> (cotangent of x), with the same attributes
//   max_pool            (x [batch, height, width, channels]) -> [batch, rows, columns, channels], with the same attributes
//   max_pool_gradient   (x, cotangent of the result) -> (cotangent of x), with the same attributes
//   unwritten           () -> an array of any type, whose memory is left as it is, with the attribute stack (i64), which tells
//                       calls apart

#include "base/host_kernels.h"
#include "pjrt/client.h"

namespace tessera::host {

// Registers with the client's plugin what this machine can run: nothing on another platform than the CPU or with a plugin that
// has no foreign functions, no product without a matrix unit. Call it before a program that calls one is compiled or loaded.
HostKernels register_kernels(const pjrt::Client& client);

}  // namespace tessera::host
