#include "train/process/cuda_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system/environment.h"
#include "base/text/text.h"
#include "pjrt/plugin/accelerators.h"
#include "train/process/neighbours.h"

namespace tessera::train {
namespace {

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

// CUDA numbers those that a process sees from 0.
void set_devices(const pjrt::ClientGroup& group, pjrt::Options& options) {
  options["node_id"] = group.process;
  options["num_nodes"] = group.processes;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const Neighbours neighbours = find_neighbours(group, visible ? visible : "all");
  if (neighbours.count == 1) return;
  const auto seen = std::ssize(pjrt::visible_accelerators(visible, pjrt::nvidia_gpus()));
  const pjrt::GpuRange own = pjrt::gpus_of_process(seen, neighbours.place, neighbours.count);
  std::vector<int64_t> numbers(static_cast<size_t>(own.end - own.begin));
  std::iota(numbers.begin(), numbers.end(), own.begin);
  options["visible_devices"] = std::move(numbers);
}

}  // namespace

pjrt::Options cuda_options(const pjrt::ClientGroup& group) {
  pjrt::Options options;
  set_memory(options);
  if (group.several()) set_devices(group, options);
  return options;
}

}  // namespace tessera::train
