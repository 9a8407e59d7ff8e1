#pragma once
// How long a step takes at best: the slowest of computing, moving data to and from memory, and moving it between devices, each
// at the chip's full rate and all overlapping.
//
//   compute       flops / flops a second of the compute dtype
//   memory        (product, transfer and state bytes) / bytes a second of the memory
//   interconnect  sum over collectives of bytes * f * (n - 1) / n / bytes a second of the link, f = 2 for an all-reduce, else
//   1; n
//                 devices in a ring. Where devices lie in several slices or hosts, the part between those (groups of them in a
//                 ring) goes over the network at the same time, and the slower one counts.

#include <cstdint>
#include <string>

#include "pjrt/chip.h"
#include "plan/count.h"

namespace tessera::plan {

struct Step {
  Counts counts;           // of one device
  double state_bytes = 0;  // arguments read and results written, of one device
  bool bf16 = false;       // products and transfers are in bf16
  int64_t devices = 1;
  int64_t groups = 1;  // slices or hosts
};

struct Roofline {
  double compute = 0, memory = 0, interconnect = 0;  // seconds
  double seconds() const;
  const char* bound() const;  // "compute", "HBM" or "interconnect"
};

Roofline roofline(const Step& step, const pjrt::Chip& chip);

}  // namespace tessera::plan
