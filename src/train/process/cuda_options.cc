#include "train/process/cuda_options.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system/environment.h"
#include "base/system/process.h"
#include "base/text/text.h"
#include "pjrt/plugin/accelerators.h"

namespace tessera::train {
namespace {

// As long as processes wait for each other at the start.
constexpr std::chrono::minutes kTellPatience{10};

// The first of JAX's variables that is set: its users have them in their scripts.
std::string jax_variable(const char* name) {
  const std::string all = environment_variable(fmt::format("XLA_CLIENT_{}", name).c_str());
  return all.empty() ? environment_variable(fmt::format("XLA_PYTHON_CLIENT_{}", name).c_str()) : all;
}

void set_memory(pjrt::Options& options) {
  if (const std::string text = jax_variable("MEM_FRACTION"); !text.empty()) {
    double share = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, share);
    if (error != std::errc() || stopped != end || !(share > 0 && share <= 1))
      throw usage_error(fmt::format("`{}` is no share of a GPU's memory", text), "XLA_CLIENT_MEM_FRACTION",
                        "give a number above 0, 1 at most, as 0.5");
    options["memory_fraction"] = share;
  }
  if (const std::string text = lower(jax_variable("PREALLOCATE")); !text.empty())
    options["preallocate"] = text != "0" && text != "false";
  if (const std::string text = jax_variable("ALLOCATOR"); !text.empty()) options["allocator"] = text;
}

// Which GPUs a process sees: two containers of a machine, which have names of their own, see others.
std::string seen_gpus(const char* visible) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{} {} {}", host_name(), boot, visible ? visible : "all");
}

// CUDA numbers those that a process sees from 0.
void set_devices(const pjrt::ClientGroup& group, pjrt::Options& options) {
  options["node_id"] = group.process;
  options["num_nodes"] = group.processes;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const auto key = [](int64_t process) { return fmt::format("gpus/{}", process); };
  const std::string seen = seen_gpus(visible);
  group.store->put(key(group.process), seen);
  int64_t place = 0, sharing = 0;
  for (int64_t process = 0; process < group.processes; ++process) {
    if (group.store->get(key(process), kTellPatience) != seen) continue;
    if (process == group.process) place = sharing;
    ++sharing;
  }
  if (sharing == 1) return;
  std::vector<std::string> numbers;
  for (size_t i = 0; i < pjrt::visible_gpus(visible, pjrt::nvidia_gpus()).size(); ++i) numbers.push_back(std::to_string(i));
  std::vector<int64_t> own;
  for (const std::string& number : split(pjrt::gpus_of_process(numbers, place, sharing), ','))
    own.push_back(std::stoll(number));
  options["visible_devices"] = std::move(own);
}

}  // namespace

pjrt::Options cuda_options(const pjrt::ClientGroup& group) {
  pjrt::Options options;
  set_memory(options);
  if (group.several()) set_devices(group, options);
  return options;
}

}  // namespace tessera::train
