#include "sweep/slots.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::sweep {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

}  // namespace

std::vector<Slot> gpu_slots(const std::vector<std::string>& gpus, int64_t each, std::optional<int64_t> jobs, int64_t runs) {
  const auto there = static_cast<int64_t>(gpus.size());
  const std::string found = fmt::format("{} GPU{} that this process may use", there, there == 1 ? "" : "s");
  if (there == 0) {
    throw usage_error("there is no GPU that this process may use", {},
                      "--platform cpu trains without; where CUDA_VISIBLE_DEVICES hides them, leave it out; where they are not "
                      "in /dev, as on WSL, "
                      "name them: CUDA_VISIBLE_DEVICES=0");
  }
  if (each > there)
    throw usage_error(fmt::format("each run has {} devices, and there {} {}", each, there == 1 ? "is" : "are", found),
                      "--devices-per-run", fmt::format("give {} or less", there));
  const int64_t fit = there / each;
  if (jobs > fit) {
    throw usage_error(
        fmt::format("{} runs at a time with {} GPU{} each don't fit the {}", *jobs, each, each == 1 ? "" : "s", found),
        "--jobs", fmt::format("give {} or less: no two runs share a GPU", fit));
  }
  std::vector<Slot> slots(static_cast<size_t>(std::clamp<int64_t>(std::min(jobs.value_or(fit), runs), 1, fit)));
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto first = gpus.begin() + static_cast<int64_t>(i) * each;
    slots[i].environment = {{kVisible, join(std::vector<std::string>(first, first + each), ",")}};
  }
  return slots;
}

std::string gpus_text(const std::vector<Slot>& slots) {
  std::vector<std::string> texts;
  for (const Slot& slot : slots) {
    for (const launch::Variable& variable : slot.environment) {
      if (variable.name == kVisible) texts.push_back(variable.value);
    }
  }
  return join(texts, "; ");
}

}  // namespace tessera::sweep
