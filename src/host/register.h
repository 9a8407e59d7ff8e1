#pragma once
// Makes the kernels of this folder callable from compiled programs, through the plugin's foreign-function extension.

#include "host/target.h"
#include "pjrt/client.h"

namespace tessera::host {

// Registers with the client's plugin what this machine can run of kernels.def, and says which: nothing on another platform than
// the CPU or with a plugin that has no foreign functions, no product without a matrix unit. Call it before a program that calls
// a kernel is compiled or loaded.
Kernels register_kernels(const pjrt::Client& client);

}  // namespace tessera::host
