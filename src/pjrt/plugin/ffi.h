#pragma once
// Functions of ours that compiled programs can call.

#include <string>

#include "pjrt/plugin/plugin.h"

namespace tessera::pjrt {

// Registers `handler` (an XLA_FFI_Handler of xla/ffi/api/c_api.h) as the target of custom_call @name {api_version = 4} on
// `platform`, XLA's name: "Host", "CUDA". Doing so again is harmless. False where the plugin has no such extension. Throws a
// device Error when it refuses.
bool register_ffi(const Plugin& plugin, const std::string& name, const std::string& platform, void* handler);

}  // namespace tessera::pjrt
