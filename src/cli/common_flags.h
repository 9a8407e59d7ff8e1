#pragma once
// The flags of every command.

#include "cli/flags.h"
#include "train/device.h"

namespace tessera::cli {

struct CommonFlags {
  train::DeviceOptions device;
  bool help = false, quiet = false;
};

// `common` must outlive `flags`.
void declare_common_flags(Flags& flags, CommonFlags& common);

}  // namespace tessera::cli
