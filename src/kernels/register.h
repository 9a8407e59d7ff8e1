#pragma once
// Makes the kernels of this folder callable from compiled programs, through the plugin's foreign-function extension.

#include <string>

#include "pjrt/client.h"

namespace tessera::kernels {

// The call target of product_f32 for StableHLO's custom_call, registered with the client's plugin; "" where it can't be used: on another
// platform than the CPU, on a machine without the matrix unit, with a plugin that has no foreign
// functions. (a f32, b f32) -> f32, dense and row-major; attributes batch, m, n, k (i64), a_transposed and b_transposed (bool) as
// in kernels::Product, whatever the ranks of the operands. Register before a program that calls it is compiled or loaded.
std::string register_product(const pjrt::Client& client);

}  // namespace tessera::kernels
