#pragma once
// The flags of every command.

#include <string>

#include "cli/flags.h"
#include "train/process/device.h"

namespace tessera::cli {

struct CommonFlags {
  train::DeviceOptions device;
  bool automatic = true;  // nobody named a platform
  bool help = false, quiet = false, allow_egress = false;
};

// Where nobody named the platform, nor a plugin, which belongs to one: what this machine has, into `values.device`.
void choose_platform(CommonFlags& values);

// `common` must outlive `flags`.
void declare_common_flags(Flags& flags, CommonFlags& common);

// --weights, of several commands: what state::parse_weights takes.
void declare_weights_flag(Flags& flags, std::string* which);

}  // namespace tessera::cli
