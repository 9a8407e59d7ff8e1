#pragma once
// Makes the kernels of this folder callable from compiled programs, through the plugin's foreign-function extension.

#include "host/target.h"
#include "pjrt/client.h"

namespace tessera::host {

// Registers those kernels of kernels.def that this machine can run with the client's plugin, and returns them. None on platforms
// other than the CPU, or with a plugin that has no foreign functions. Call it before a program that calls a kernel is compiled or
// loaded.
Kernels register_kernels(const pjrt::Client& client);

}  // namespace tessera::host
