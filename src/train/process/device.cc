#include "train/process/device.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/system/environment.h"
#include "cluster/group/members.h"
#include "pjrt/plugin/error.h"
#include "pjrt/plugin/tpu_holders.h"
#include "train/process/cuda_options.h"
#include "train/process/neighbours.h"
#include "train/process/platform_choice.h"
#include "train/process/product_check.h"

namespace tessera::train {

namespace {

constexpr const char* kVisibleChips = "TPU_VISIBLE_CHIPS";

void expect_own_chips(const pjrt::ClientGroup& group) {
  const Neighbours neighbours = find_neighbours(group, environment_variable(kVisibleChips, "all"));
  if (neighbours.count == 1) return;
  throw usage_error(
      fmt::format("{} processes of the run are on this host, and one drives all of its TPU chips", neighbours.count), {},
      "start one process on each host; --platform cpu trains on the hosts' processors");
}

// Where the plugin says itself that something failed, and not this program of the plugin.
std::string help_of(const pjrt::TpuHolders& holders, const Error& error) {
  return dynamic_cast<const pjrt::PjrtError*>(&error) ? holders.help(error.message()) : "";
}

std::shared_ptr<pjrt::Plugin> load_plugin(const DeviceOptions& options, const pjrt::TpuHolders& holders) {
  const std::string file = pjrt::find_plugin(options.platform, options.plugin);
  try {
    return pjrt::Plugin::load(file);
  } catch (const Error& error) {
    const std::string held = help_of(holders, error);
    if (held.empty()) throw;
    throw Error(error.code(), error.message(), error.where(), held);
  }
}

}  // namespace

std::shared_ptr<pjrt::Client> open_client(const DeviceOptions& options, pjrt::ClientGroup group, const std::string& proc) {
  const std::string name(pjrt::platform_name(options.platform));
  tell_platform_choice(options);
  pjrt::TpuHolders holders;
  // Where this process takes some of the chips, those of others are not in its way.
  if (options.platform == pjrt::Platform::kTpu && environment_variable(kVisibleChips).empty())
    holders = pjrt::find_tpu_holders(proc);
  // libtpu may end the program where it can't have the chips, so that who has them is said before.
  if (!holders.processes.empty()) log_note(fmt::format("the TPU is open in {}", holders.text()));
  auto plugin = load_plugin(options, holders);
  if (group.several() && options.devices) {
    throw usage_error(fmt::format("{} processes use all {} devices that each of them sees", group.processes, name), "--devices",
                      "leave it out; CUDA_VISIBLE_DEVICES says which GPUs a process sees");
  }
  pjrt::ClientOptions client_options{.cpu_device_count = options.devices.value_or(1), .create_options = {}};
  if (options.platform == pjrt::Platform::kCuda) client_options.create_options = cuda_options(group);
  if (options.platform == pjrt::Platform::kTpu && group.several()) expect_own_chips(group);
  const bool several = group.several();
  client_options.group = std::move(group);
  std::shared_ptr<pjrt::Client> client;
  try {
    client = pjrt::Client::create(std::move(plugin), client_options);
  } catch (const Error& error) {
    const std::string held = help_of(holders, error);
    if (several && pjrt::is_of_connection(error))
      throw group::transient_error(fmt::format("the devices of all processes were not found: {}", error.message()),
                                   error.where(), held);
    if (!held.empty()) throw Error(error.code(), error.message(), error.where(), held);
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
