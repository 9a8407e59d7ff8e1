#include "train/process/device.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "train/process/product_check.h"

namespace tessera::train {

std::shared_ptr<pjrt::Client> open_client(const DeviceOptions& options) {
  const std::string name(pjrt::platform_name(options.platform));
  if (!options.choice.why.empty()) {
    const char* other = options.platform == pjrt::Platform::kCpu ? "" : " (--platform cpu for its processor)";
    log_line(fmt::format("platform {}: {}{}", name, options.choice.why, other));
  }
  if (!options.choice.missing.empty()) log_note(fmt::format("{}; the CPU is used", options.choice.missing));
  auto plugin = pjrt::Plugin::load(pjrt::find_plugin(options.platform, options.plugin));
  const pjrt::ClientOptions client_options{.cpu_device_count = options.devices.value_or(1), .create_options = {}};
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
