#pragma once
// Which arrays a device holds at each moment of a scheduled program, and at the moment when they take the most memory.
//
// Arrays that share memory are one buffer: what a loop carries, what an operation overwrites in place (dynamic-update-slice,
// donated arguments), and an elementwise result or a sum over devices that takes over the memory of an operand nobody needs any
// more. These are the rules of XLA's own assignment of buffers (xla/hlo/analysis/hlo_dataflow_analysis.cc,
// hlo_alias_analysis.cc). What that adds to them, gaps between buffers and code's own needs, is not in the program and not
// counted here; nor is memory of donated arguments that it uses for something else between their last use and their new value,
// as it does on CPUs.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/program/hlo.h"

namespace tessera::plan {

// An array of an instruction's result: its place among pjrt::HloInstruction::arrays.
struct HloValue {
  const pjrt::HloInstruction* instruction = nullptr;
  size_t index = 0;
  const pjrt::HloArray& array() const { return instruction->arrays[index]; }
};

struct Buffer {
  int64_t bytes = 0;                // padding included; 0 for what lies in other memory
  std::optional<int64_t> argument;  // the program's argument that it holds
  // What is written to it, in order: first what makes it, then what overwrites it.
  std::vector<HloValue> writes;
};

struct Liveness {
  std::vector<Buffer> buffers;                        // all of the program
  std::map<int64_t, std::vector<size_t>> buffers_of;  // by instruction's id: of each array of its result
  std::vector<size_t> at_peak;                        // those that are alive at the worst moment, largest first
  int64_t peak = 0;                                   // what they take together, in bytes
};

// `module` outlives the result. `spaces`: the memory spaces that are the device's main memory (TPU: 0; GPU: 0 and 1). Nothing
// where the module has no schedule. Throws a device Error where it contradicts itself.
std::optional<Liveness> liveness_of(const pjrt::HloModule& module, const std::vector<int64_t>& spaces = {0});

}  // namespace tessera::plan
