#include "profile/cpu_time.h"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

namespace tessera::profile {
namespace {

// The instruction of each compiled function.
std::map<std::string, std::string> scopes_of(const pjrt::HloModule& program) {
  std::map<std::string, std::string> out;
  for (const pjrt::HloComputation& computation : program.computations) {
    for (const pjrt::HloInstruction& instruction : computation.instructions) {
      out[instruction.name] = instruction.op_name.substr(0, instruction.op_name.rfind('/'));  // without the op
    }
  }
  return out;
}

// "multiply_add_fusion.12" -> "multiply_add_fusion": instructions of one kind differ in their numbers.
std::string without_number(std::string name) {
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && name.find_first_not_of("0123456789", dot + 1) == std::string::npos) name.resize(dot);
  return name;
}

// XLA's libraries: other programs are compiled beside the step's, those of evaluators.
bool is_compiler(const std::string& function) { return function.starts_with("llvm::") || function.starts_with("mlir::"); }

std::string library_of(uintptr_t address) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(address), &info) == 0) return "compiled code (from the cache)";
  if (info.dli_sname != nullptr) return info.dli_sname;
  const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
  return file.substr(file.rfind('/') + 1);
}

}  // namespace

std::vector<CpuTime> cpu_times(const std::vector<CpuSample>& samples, const pjrt::CodeNames& names,
                               const pjrt::HloModule& program) {
  const std::map<std::string, std::string> scopes = scopes_of(program);
  const auto of = [&](const CpuSample& sample) -> std::pair<std::string, std::string> {
    if (sample.work.name != nullptr) return {sample.work.name, sample.work.where == nullptr ? "" : sample.work.where};
    const auto code = names.find(sample.address);
    if (!code) return {library_of(sample.address), ""};
    if (!code->compiled) return {code->name, is_compiler(code->name) ? "compilation" : ""};
    const auto scope = scopes.find(code->name);
    return {without_number(code->name), scope == scopes.end() ? "" : scope->second};
  };
  std::map<std::pair<std::string, std::string>, CpuTime> sums;
  for (const CpuSample& sample : samples) {
    auto key = of(sample);
    CpuTime& sum = sums[key];
    std::tie(sum.operation, sum.scope) = std::move(key);
    sum.time += sample.time;
    ++sum.samples;
  }
  std::vector<CpuTime> out;
  for (auto& [key, sum] : sums) out.push_back(std::move(sum));
  std::ranges::stable_sort(out, std::greater(), &CpuTime::time);
  return out;
}

std::vector<PartTime> part_times(const std::vector<CpuTime>& times) {
  constexpr std::string_view kGradient = "gradient/", kOptimizer = "optimizer/";
  std::map<std::string, PartTime> parts;
  for (const CpuTime& time : times) {
    const bool gradient = time.scope.starts_with(kGradient);
    std::string part = time.scope.substr(gradient ? kGradient.size() : 0);
    if (part.starts_with(kOptimizer)) part.resize(kOptimizer.size() - 1);  // of all parameters
    if (part.empty()) part = "other";
    PartTime& sum = parts[part];
    sum.part = part;
    (gradient ? sum.gradient : sum.forward) += time.time;
  }
  std::vector<PartTime> out;
  for (auto& [name, part] : parts) out.push_back(std::move(part));
  std::ranges::stable_sort(out, std::greater(), &PartTime::all);
  return out;
}

}  // namespace tessera::profile
