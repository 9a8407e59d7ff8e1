#pragma once
// The kernels of this host that a program may call (host/register.h). An empty one is left to the compiler.

#include <string_view>

namespace tessera {

// Call targets, in static memory.
struct HostKernels {
  std::string_view product;             // large f32 matrix products
  std::string_view attention;           // softmax attention in f32, forward
  std::string_view attention_gradient;  // and backward
  std::string_view self_attention;      // the same where queries, keys and values are one array
  std::string_view self_attention_gradient;
  std::string_view dense;  // a dense layer of few weights, with what comes before and after it
  std::string_view dense_gradient;
  std::string_view patches;  // what the window of a convolution sees, in f32
  std::string_view patches_gradient;
  std::string_view max_pool;  // the largest number that a window sees, in f32
  std::string_view max_pool_gradient;
  std::string_view unwritten;  // an array with what is in its memory, for one that is written before it is read
};

}  // namespace tessera
