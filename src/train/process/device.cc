#include "train/process/device.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/system/environment.h"
#include "base/text/text.h"
#include "train/process/product_check.h"

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
      throw usage_error(fmt::format("`{}` is no share of a GPU's memory", text), "XLA_CLIENT_MEM_FRACTION", "for example 0.5");
    options["memory_fraction"] = share;
  }
  if (const std::string text = lower(jax_variable("PREALLOCATE")); !text.empty())
    options["preallocate"] = text != "0" && text != "false";
  if (const std::string text = jax_variable("ALLOCATOR"); !text.empty()) options["allocator"] = text;
}

// Of processes that mpirun or srun started on this machine each takes its part of the GPUs, unless it was given its own.
void set_devices(const pjrt::ClientGroup& group, pjrt::Options& options) {
  options["node_id"] = group.process;
  options["num_nodes"] = group.processes;
  if (group.local_processes == 1 || !environment_variable("CUDA_VISIBLE_DEVICES").empty()) return;
  const std::string own =
      pjrt::gpus_of_process(pjrt::visible_gpus("", pjrt::nvidia_gpus()), group.local_process, group.local_processes);
  std::vector<int64_t> numbers;
  for (const std::string& gpu : split(own, ',')) numbers.push_back(std::stoll(gpu));
  options["visible_devices"] = std::move(numbers);
}

}  // namespace

std::shared_ptr<pjrt::Client> open_client(const DeviceOptions& options, pjrt::ClientGroup group) {
  const std::string name(pjrt::platform_name(options.platform));
  if (!options.choice.why.empty()) {
    const char* other = options.platform == pjrt::Platform::kCpu ? "" : " (--platform cpu for its processor)";
    log_line(fmt::format("platform {}: {}{}", name, options.choice.why, other));
  }
  if (!options.choice.missing.empty()) log_note(fmt::format("{}; the CPU is used", options.choice.missing));
  auto plugin = pjrt::Plugin::load(pjrt::find_plugin(options.platform, options.plugin));
  if (group.several() && options.devices) {
    throw usage_error(fmt::format("{} processes use all {} devices that each of them sees", group.processes, name), "--devices",
                      "leave it out; CUDA_VISIBLE_DEVICES says which GPUs a process sees");
  }
  pjrt::ClientOptions client_options{.cpu_device_count = options.devices.value_or(1), .create_options = {}};
  if (options.platform == pjrt::Platform::kCuda) {
    set_memory(client_options.create_options);
    if (group.several()) set_devices(group, client_options.create_options);
  }
  client_options.group = std::move(group);
  std::shared_ptr<pjrt::Client> client;
  try {
    client = pjrt::Client::create(std::move(plugin), client_options);
  } catch (const Error& error) {
    if (!error.help().empty()) throw;
    throw Error(error.code(), error.message(), error.where(),
                fmt::format("is there a {} device on this machine, with its driver? `tessera devices` shows what can be used; "
                            "--platform cpu uses the processor",
                            name));
  }
  const auto found = static_cast<int64_t>(client->devices().size());
  if (options.devices.value_or(1) > found) {
    throw usage_error(fmt::format("--devices is {}, and this machine has {} {} device{}", *options.devices, found, name,
                                  found == 1 ? "" : "s"),
                      "--devices", "leave it out to use all of them");
  }
  if (options.platform == pjrt::Platform::kCpu) check_products(*client);
  return client;
}

int64_t devices_of(const DeviceOptions& options, const pjrt::Client& client) {
  return options.devices.value_or(static_cast<int64_t>(client.devices().size()));
}

}  // namespace tessera::train
