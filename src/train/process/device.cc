#include "train/process/device.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "train/process/cuda_options.h"
#include "train/process/platform_choice.h"
#include "train/process/product_check.h"

namespace tessera::train {

std::shared_ptr<pjrt::Client> open_client(const DeviceOptions& options, pjrt::ClientGroup group) {
  const std::string name(pjrt::platform_name(options.platform));
  tell_platform_choice(options);
  auto plugin = pjrt::Plugin::load(pjrt::find_plugin(options.platform, options.plugin));
  if (group.several() && options.devices) {
    throw usage_error(fmt::format("{} processes use all {} devices that each of them sees", group.processes, name), "--devices",
                      "leave it out; CUDA_VISIBLE_DEVICES says which GPUs a process sees");
  }
  pjrt::ClientOptions client_options{.cpu_device_count = options.devices.value_or(1), .create_options = {}};
  if (options.platform == pjrt::Platform::kCuda) client_options.create_options = cuda_options(group);
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
