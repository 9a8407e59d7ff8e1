#include "train/sweep/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/text/text.h"
#include "pjrt/plugin/accelerators.h"

namespace tessera::sweep {
namespace {

constexpr const char* kVisibleGpus = "CUDA_VISIBLE_DEVICES";
constexpr const char* kVisibleChips = "TPU_VISIBLE_CHIPS";
// Where libtpu listens for the other processes of a run; there are none, but two processes can't have one port.
constexpr int kFirstPort = 8476;

const char* visible(pjrt::Platform platform) { return platform == pjrt::Platform::kTpu ? kVisibleChips : kVisibleGpus; }
const char* name_of(pjrt::Platform platform) { return platform == pjrt::Platform::kTpu ? "TPU chip" : "GPU"; }

std::string counted(pjrt::Platform platform, int64_t count) {
  return fmt::format("{} {}{}", count, name_of(platform), count == 1 ? "" : "s");
}

// How so many chips lie beside each other on a host: the only parts of one that JAX and Ray let a process have.
const char* bounds_of(int64_t chips) {
  switch (chips) {
    case 1: return "1,1,1";
    case 2: return "1,2,1";
    case 4: return "2,2,1";
    default: return nullptr;
  }
}

// libtpu takes these chips alone, and does not mind that another process has others of the machine. As the tests of JAX set it for
// several processes (jax/_src/test_multiprocess.py).
std::vector<launch::Variable> chip_environment(const std::vector<std::string>& chips, size_t slot) {
  const std::string port = std::to_string(kFirstPort + static_cast<int>(slot));
  return {{kVisibleChips, join(chips, ",")}, {"TPU_CHIPS_PER_PROCESS_BOUNDS", bounds_of(std::ssize(chips))},
          {"TPU_PROCESS_BOUNDS", "1,1,1"},   {"TPU_PROCESS_ADDRESSES", "localhost:" + port},
          {"TPU_PROCESS_PORT", port},        {"CLOUD_TPU_TASK_ID", "0"}};
}

void expect_divisible(const Accelerators& accelerators, int64_t each) {
  const auto there = std::ssize(accelerators.names);
  if (accelerators.platform != pjrt::Platform::kTpu || each == there || bounds_of(each)) return;
  throw usage_error(
      fmt::format("each run has {} TPU chips, and libtpu gives a process 1, 2, 4 or all {} of a machine", each, there),
      "--devices-per-run", "give one of these");
}

Error none_there(pjrt::Platform platform) {
  return usage_error(
      fmt::format("there is no {} that this process may use", name_of(platform)), {},
      platform == pjrt::Platform::kTpu
          ? "--platform cpu trains without; where TPU_VISIBLE_CHIPS hides them, leave it out; where they are not on "
            "the PCI bus that is seen here, name them: TPU_VISIBLE_CHIPS=0,1,2,3"
          : "--platform cpu trains without; where CUDA_VISIBLE_DEVICES hides them, leave it out; where they are not "
            "in /dev, as on WSL, name them: CUDA_VISIBLE_DEVICES=0");
}

}  // namespace

Accelerators Accelerators::of_machine(pjrt::Platform platform) {
  const int there = platform == pjrt::Platform::kTpu ? pjrt::tpu_chips() : pjrt::nvidia_gpus();
  const char* named = std::getenv(visible(platform));
  return {platform, pjrt::visible_accelerators(named, there), named != nullptr};
}

std::vector<Slot> accelerator_slots(const Accelerators& accelerators, std::optional<int64_t> per_run,
                                    std::optional<int64_t> jobs, int64_t runs) {
  const auto& [platform, names, named] = accelerators;
  const auto there = std::ssize(names);
  const int64_t each = per_run.value_or(1);
  const std::string found = counted(platform, there) + " that this process may use";
  if (there == 0 && platform == pjrt::Platform::kTpu && !per_run && jobs.value_or(1) == 1) return {Slot{}};
  if (there == 0) throw none_there(platform);
  if (each > there)
    throw usage_error(
        fmt::format("each run has {}, and there {} {}", counted(platform, each), there == 1 ? "is" : "are", found),
        "--devices-per-run", fmt::format("give {} or less", there));
  expect_divisible(accelerators, each);
  const int64_t fit = there / each;
  if (jobs > fit) {
    throw usage_error(fmt::format("{} runs at a time with {} each don't fit the {}", *jobs, counted(platform, each), found),
                      "--jobs", fmt::format("give {} or less: no two runs share a {}", fit, name_of(platform)));
  }
  std::vector<Slot> slots(static_cast<size_t>(std::clamp<int64_t>(std::min(jobs.value_or(fit), runs), 1, fit)));
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto first = names.begin() + static_cast<int64_t>(i) * each;
    const std::vector<std::string> own(first, first + each);
    slots[i].devices = join(own, ",");
    if (platform == pjrt::Platform::kCuda)
      slots[i].environment = {{kVisibleGpus, slots[i].devices}};
    else if (each < there || (named && bounds_of(each)))  // else libtpu takes all, as for a run that is no part of a sweep
      slots[i].environment = chip_environment(own, i);
  }
  return slots;
}

std::string slots_text(pjrt::Platform platform, const std::vector<Slot>& slots) {
  std::vector<std::string> texts;
  for (const Slot& slot : slots) {
    if (!slot.devices.empty()) texts.push_back(slot.devices);
  }
  return texts.empty() ? "" : fmt::format("{}s {}", name_of(platform), join(texts, "; "));
}

}  // namespace tessera::sweep
