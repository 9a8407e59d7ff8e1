#pragma once
// Makes the kernels of this folder callable from compiled programs, through the plugin's foreign-function extension.
//
// Arrays are dense and row-major.
//   product             (a f32, b f32) -> f32, with the attributes batch, m, n, k (i64), a_transposed and b_transposed (bool)
//   of
//                       kernels::Product, whatever the ranks of the arrays
//   attention           (q, k, v f32 [batch, tokens, heads, width]) -> f32, as q
//   attention_gradient  (q, k, v, cotangent of the result) -> (cotangents of q, k and v)

#include "base/host_kernels.h"
#include "pjrt/client.h"

namespace tessera::kernels {

// Registers with the client's plugin what this machine can run: nothing on another platform than the CPU or with a plugin that
// has no foreign functions, no product without a matrix unit. Call it before a program that calls one is compiled or loaded.
HostKernels register_kernels(const pjrt::Client& client);

}  // namespace tessera::kernels
