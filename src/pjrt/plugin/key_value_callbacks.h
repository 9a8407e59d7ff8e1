#pragma once
// A store as the C API takes it. Only .cc files of src/pjrt include this.

#include <pjrt_c_api.h>

#include "pjrt/plugin/key_values.h"

namespace tessera::pjrt {

// Sets the callbacks of `args` to those of `store`, which must outlive the client.
void give_callbacks(KeyValues& store, PJRT_Client_Create_Args& args);

}  // namespace tessera::pjrt
