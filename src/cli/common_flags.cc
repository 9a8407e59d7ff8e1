#include "cli/common_flags.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "base/log.h"
#include "pjrt/cache.h"
#include "pjrt/plugin/accelerators.h"
#include "store/local/cache_directory.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

OneOf color_values() { return {{"auto", "always", "never"}}; }

// "auto" is read here, the others are the library's.
OneOf platform_values() {
  OneOf names{{"auto"}};
  for (const auto platform : {pjrt::Platform::kCpu, pjrt::Platform::kCuda, pjrt::Platform::kTpu})
    names.texts.emplace_back(pjrt::platform_name(platform));
  return names;
}

void choose_color(const std::string& value) {
  if (value == "auto") return set_color_mode(ColorMode::kAuto);
  if (value == "always") return set_color_mode(ColorMode::kAlways);
  if (value == "never") return set_color_mode(ColorMode::kNever);
  throw usage_error(fmt::format("`--color` is \"{}\"", value), {}, listed(color_values()));
}

}  // namespace

void declare_common_flags(Flags& flags, CommonFlags& values) {
  const auto common = [](Flag& flag) -> Flag& {
    flag.common = true;
    return flag;
  };
  train::DeviceOptions& device = values.device;
  common(flags.add(
      "--platform", "NAME",
      [&](const std::string& name) {
        values.automatic = name == "auto";
        if (!values.automatic) device.platform = pjrt::parse_platform(name);
      },
      platform_values(), "; auto, which is TPU, then GPU, then CPU, when not given"));
  common(flags.add("--devices", "N", &device.devices, {1, 1024}, "how many devices; on a CPU they are virtual"));
  Flag& plugin = common(flags.add("--plugin", "PATH", &device.plugin, "the PJRT plugin: a file, or a directory that has one"));
  plugin.environment = "TESSERA_PLUGIN_PATH";
  plugin.read_environment = false;
  common(flags.add(
             "--cache-dir", "DIR",
             [&](const std::string& path) {
               store::refuse_url(path, "--cache-dir");
               store::set_cache_directory(path);
               device.cache = pjrt::ExecutableCache::standard();
             },
             "where compiled programs and indexes of data are kept: a directory that only you can write to; empty: nowhere"))
      .read_environment = false;
  common(flags.add("--color", "WHEN", choose_color, color_values(), "; auto when not given; NO_COLOR is heeded"));
  common(flags.add("--allow-egress", &values.allow_egress,
                   "read data of a bucket in another region than this machine's, although that costs money"));
  common(flags.add("--quiet", &values.quiet, "show warnings, errors and results alone; a run's log.txt has all"));
  common(flags.add("--help", &values.help, "this text")).environment.clear();
}

void declare_weights_flag(Flags& flags, std::string* which) {
  flags.add("--weights", "WHICH", which, OneOf{{"raw", "average"}}, ": the moving average that a run kept; raw when not given");
}

void choose_platform(CommonFlags& values) {
  train::DeviceOptions& device = values.device;
  if (!values.automatic || !device.plugin.empty()) return;
  device.choice = pjrt::choose_platform(pjrt::tpu_chips(), pjrt::nvidia_gpus(), pjrt::plugin_places());
  device.platform = device.choice.platform;
}

}  // namespace tessera::cli
