// The plugin that $WRAPPED_PLUGIN names, as if its devices were chips of a TPU, which say how much of their memory is in use:
// device n has n + 1 MiB, had 10 MiB at most, and has 16 GiB.
#include <dlfcn.h>
#include <pjrt_c_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace {

const PJRT_Api* g_real = nullptr;

PJRT_Error* kind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = "TPU v5 lite";
  args->device_kind_size = std::strlen(args->device_kind);
  return nullptr;
}

PJRT_Error* memory(PJRT_Device_MemoryStats_Args* args) {
  PJRT_Device_GetDescription_Args device{};
  device.struct_size = PJRT_Device_GetDescription_Args_STRUCT_SIZE;
  device.device = args->device;
  if (PJRT_Error* error = g_real->PJRT_Device_GetDescription(&device)) return error;
  PJRT_DeviceDescription_Id_Args id{};
  id.struct_size = PJRT_DeviceDescription_Id_Args_STRUCT_SIZE;
  id.device_description = device.device_description;
  if (PJRT_Error* error = g_real->PJRT_DeviceDescription_Id(&id)) return error;
  args->bytes_in_use = int64_t{id.id + 1} << 20;
  args->peak_bytes_in_use = 10 << 20;
  args->peak_bytes_in_use_is_set = true;
  args->bytes_limit = int64_t{16} << 30;
  args->bytes_limit_is_set = true;
  return nullptr;
}

}  // namespace

extern "C" const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api{};
  if (g_real) return &api;
  void* library = dlopen(std::getenv("WRAPPED_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  g_real = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  std::memcpy(&api, g_real, std::min(g_real->struct_size, sizeof api));
  api.struct_size = std::min(g_real->struct_size, sizeof api);
  api.PJRT_DeviceDescription_Kind = kind;
  api.PJRT_Device_MemoryStats = memory;
  return &api;
}
