#pragma once
// What the processor time of a profile went to.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/cpu_samples.h"
#include "base/system/spans.h"
#include "pjrt/code_names.h"
#include "pjrt/program/hlo.h"

namespace tessera::profile {

// Of one operation of one part of the program.
struct CpuTime {
  std::string operation;  // a kernel or another span, an instruction of the compiled program, a function
  std::string scope;      // "model/blocks/attn", "gradient/model/blocks/attn", "optimizer", "eval/val"; empty: unknown
  int64_t time = 0;       // nanoseconds
  int64_t samples = 0;
};

// `recording`: of the time of the samples; `names`: of the plugin that ran the program; `program`: the instructions that its
// compiled functions are named after. While the loop evaluates ("eval/val"), all but the input's work belongs to the evaluation,
// whose programs have instructions of the same names. The greatest time first.
std::vector<CpuTime> cpu_times(const std::vector<CpuSample>& samples, const Recording& recording, const pjrt::CodeNames& names,
                               const pjrt::HloModule& program);

// The time of one part of the model in the forward pass and in the gradient, or of any other part of the program.
struct PartTime {
  std::string part;
  int64_t forward = 0, gradient = 0;  // nanoseconds
  int64_t all() const { return forward + gradient; }
};
// The greatest first; what has no scope is "other".
std::vector<PartTime> part_times(const std::vector<CpuTime>& times);
// Whether a part, or a scope, is none of a step's: an evaluation, or compilation.
bool is_beside_steps(std::string_view part);

}  // namespace tessera::profile
