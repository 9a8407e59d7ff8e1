// A plugin of several processes without GPUs: the CPU plugin that $TESSERA_JOINT_INNER names, as XLA's plugin for CUDA behaves with
// `node_id` and `num_nodes`. Each process sees all processes' devices, can address its own ($TESSERA_JOINT_DEVICES, 1 where unset),
// and runs programs with collectives over all of them.
//
// Each process computes what all devices compute, on as many devices of the inner plugin. An array that only
// one process has, because it was uploaded or computed there, goes to the others as a file in $TESSERA_JOINT_DIRECTORY when a program
// of several processes first uses it. $TESSERA_JOINT_SHUFFLED=1 lists devices in another order than their processes'.
//
// What it compiled is kept in $TESSERA_JOINT_CACHE. Unlike the real plugin, PJRT_LoadedExecutable_Execute returns once all processes
// have called it for that program.
#include <pjrt_c_api.h>

#include <algorithm>
#include <cstring>

#include "arrays.h"
#include "client.h"
#include "inner.h"
#include "program.h"

namespace tessera::joint {
namespace {

// A function that the inner plugin would answer for one process, or that makes buffers other than arrays.cc knows.
#define UNIMPLEMENTED(NAME) \
  api.NAME = [](NAME##_Args*) { return error_of(PJRT_Error_Code_UNIMPLEMENTED, #NAME " over several processes"); }

void refuse_others(PJRT_Api& api) {
  UNIMPLEMENTED(PJRT_Client_DefaultDeviceAssignment);
  UNIMPLEMENTED(PJRT_Client_TopologyDescription);
  UNIMPLEMENTED(PJRT_Client_CreateViewOfDeviceBuffer);
  UNIMPLEMENTED(PJRT_Client_CreateBuffersForAsyncHostToDevice);
  UNIMPLEMENTED(PJRT_Client_CreateUninitializedBuffer);
  UNIMPLEMENTED(PJRT_Client_CreateAliasBuffer);
  UNIMPLEMENTED(PJRT_Buffer_CopyToDevice);
  UNIMPLEMENTED(PJRT_Buffer_CopyToMemory);
  UNIMPLEMENTED(PJRT_Executable_Serialize);
  UNIMPLEMENTED(PJRT_Executable_DeserializeAndLoad);
}

const PJRT_Api* make_api() {
  if (inner() == nullptr) return nullptr;
  static PJRT_Api api{};
  api.struct_size = std::min(inner()->struct_size, sizeof api);
  std::memcpy(&api, inner(), api.struct_size);
  api.struct_size = std::min(inner()->struct_size, sizeof api);
  api.extension_start = nullptr;  // no foreign functions, as no others than the CPU's have them
  api.PJRT_Error_Destroy = destroy_error;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_code;
  put_client_functions(api);
  put_buffer_functions(api);
  put_program_functions(api);
  refuse_others(api);
  return &api;
}

}  // namespace
}  // namespace tessera::joint

extern "C" const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* const api = tessera::joint::make_api();
  return api;
}
