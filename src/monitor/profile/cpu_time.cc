#include "monitor/profile/cpu_time.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace tessera::profile {
namespace {

constexpr std::string_view kCompilation = "compilation", kMonitoring = "monitoring", kInput = "input", kEvaluation = "eval/";

// What else a recording tells of a sample.
class Surroundings {
 public:
  explicit Surroundings(const Recording& recording) {
    for (const ThreadRecord& thread : recording.threads) {
      for (const SpanRecord& span : thread.spans) {
        if (span.kind == SpanKind::kInput) input_.insert(span.name);
        if (span.kind == SpanKind::kPhase && std::string_view(span.name).starts_with(kEvaluation)) evaluations_.push_back(span);
      }
    }
  }
  bool is_input(const Work& work) const { return work.name != nullptr && input_.contains(work.name); }
  // The evaluation that went on then; null: none.
  const char* evaluation_at(int64_t time) const {
    for (const SpanRecord& span : evaluations_) {
      if (span.begin <= time && time <= span.end) return span.name;
    }
    return nullptr;
  }

 private:
  std::set<std::string_view> input_;
  std::vector<SpanRecord> evaluations_;
};

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

// What a sample is of.
struct Named {
  std::string operation, scope;
  bool certain = false;  // whoever is there said so, or its function does
};

// A compiler calls others, who have no names of their own (memory, containers): what a thread does beside its functions, and
// nothing else in between, is compilation, too.
void join_compilation(const std::vector<CpuSample>& samples, std::vector<Named>& named) {
  constexpr int64_t kBeside = 50'000'000;  // nanoseconds
  std::map<int64_t, std::vector<size_t>> threads;
  for (size_t i = 0; i < samples.size(); ++i) threads[samples[i].thread].push_back(i);
  for (auto& [thread, order] : threads) {
    std::ranges::stable_sort(order, {}, [&](size_t i) { return samples[i].at; });
    for (const bool backwards : {false, true}) {
      if (backwards) std::ranges::reverse(order);
      std::optional<int64_t> compiler;  // when it was last seen
      for (const size_t i : order) {
        Named& one = named[i];
        if (one.scope == kCompilation) {
          compiler = samples[i].at;
        } else if (one.certain) {
          compiler.reset();
        } else if (compiler && std::abs(samples[i].at - *compiler) < kBeside) {
          one.scope = kCompilation;
        }
      }
    }
  }
}

}  // namespace

std::vector<CpuTime> cpu_times(const std::vector<CpuSample>& samples, const Recording& recording, const pjrt::CodeNames& names,
                               const pjrt::HloModule& program) {
  const std::map<std::string, std::string> scopes = scopes_of(program);
  const Surroundings surroundings(recording);
  const auto in_step = [&](const CpuSample& sample) -> Named {
    if (surroundings.is_input(sample.work)) return {sample.work.name, std::string(kInput), true};
    if (sample.work.name != nullptr) return {sample.work.name, sample.work.where == nullptr ? "" : sample.work.where, true};
    const auto code = names.find(sample.address);
    if (!code) return {library_of(sample.address), ""};
    if (!code->compiled) return {code->name, is_compiler(code->name) ? std::string(kCompilation) : ""};
    const auto scope = scopes.find(code->name);
    return {without_number(code->name), scope == scopes.end() ? "" : scope->second, true};
  };
  std::vector<Named> named;
  for (const CpuSample& sample : samples) named.push_back(in_step(sample));
  join_compilation(samples, named);
  std::map<std::pair<std::string, std::string>, CpuTime> sums;
  for (size_t i = 0; i < samples.size(); ++i) {
    Named& one = named[i];
    const char* evaluation = surroundings.evaluation_at(samples[i].at);
    const bool apart = one.scope == kCompilation || one.scope == kMonitoring || one.scope == kInput;
    if (evaluation != nullptr && !apart) one.scope = evaluation;
    CpuTime& sum = sums[std::pair(one.operation, one.scope)];
    sum.operation = one.operation;
    sum.scope = one.scope;
    sum.time += samples[i].time;
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

bool is_beside_steps(std::string_view part) { return part == kCompilation || part.starts_with(kEvaluation); }

}  // namespace tessera::profile
