#pragma once
// The kernels of this host that a program may call (kernels/register.h). An empty one is left to the compiler.

#include <string_view>

namespace tessera {

// Call targets, in static memory.
struct HostKernels {
  std::string_view product;             // large f32 matrix products
  std::string_view attention;           // softmax attention in f32, forward
  std::string_view attention_gradient;  // and backward
};

}  // namespace tessera
