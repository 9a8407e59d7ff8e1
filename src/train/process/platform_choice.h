#pragma once
// What is said of a platform that nobody named.

#include "train/process/device.h"

namespace tessera::train {

// A line for why it is this one, and a note of what is missing for a faster one; nothing where it was named.
void tell_platform_choice(const DeviceOptions& options);

}  // namespace tessera::train
