#include "train/process/platform_choice.h"

#include <fmt/format.h>

#include "base/log.h"

namespace tessera::train {

void tell_platform_choice(const DeviceOptions& options) {
  if (!options.choice.why.empty()) {
    const char* other = options.platform == pjrt::Platform::kCpu ? "" : " (--platform cpu for its processor)";
    log_line(fmt::format("platform {}: {}{}", pjrt::platform_name(options.platform), options.choice.why, other));
  }
  if (!options.choice.missing.empty()) log_note(fmt::format("{}; the CPU is used", options.choice.missing));
}

}  // namespace tessera::train
