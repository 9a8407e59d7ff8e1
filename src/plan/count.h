#pragma once
// What one device does in one run of a program: arithmetic, memory traffic, and what it exchanges with others. Loops count as
// often as they run, which XLA's own cost analysis leaves out.
//
// Counted in the program that XLA's partitioner has made, compiled for virtual CPU devices: on a TPU the compiler's last form
// of a program hides its transfers (a reduce-scatter is shown as an all-reduce, an all-gather vanishes in a fusion).

#include <cstdint>
#include <map>
#include <string>

#include "pjrt/program/hlo.h"

namespace tessera::plan {

struct Collective {
  int64_t count = 0;
  // All-gather: of the gathered array; others: of what goes in. A ring of n devices moves (n - 1) / n of it through each
  // device's link (all-reduce: twice that).
  double bytes = 0;
};

struct Counts {
  double flops = 0;  // of products and convolutions: two a multiply-add
  // Traffic to memory, when every product and convolution reads its operands and writes its result once, every transfer
  // likewise, and all else is fused into those.
  double product_bytes = 0, transfer_bytes = 0;
  // "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute". An all-reduce
  // counts as a reduce-scatter where each device uses only a slice of the result.
  std::map<std::string, Collective> collectives;
};

// Throws a device Error when the program has a loop whose number of rounds is not known.
Counts count(const pjrt::HloModule& module);

}  // namespace tessera::plan
