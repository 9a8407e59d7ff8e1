#include "pjrt/plugin/ffi.h"

#include <mutex>
#include <set>
#include <tuple>

#include "pjrt/plugin/call.h"

namespace tessera::pjrt {
namespace {

// As in xla/pjrt/c/pjrt_c_api_ffi_extension.h, which no wheel ships.
struct RegisterHandlerArgs {
  size_t struct_size = sizeof(RegisterHandlerArgs);
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  int traits = 0;
};
struct FfiExtension {
  PJRT_Extension_Base base;
  void* type_register;
  void* user_data_add;
  PJRT_Error* (*register_handler)(RegisterHandlerArgs* args);
};

const FfiExtension* find_extension(const Plugin& plugin) {
  for (const auto* e = plugin.api()->extension_start; e != nullptr; e = e->next) {
    if (e->type == PJRT_Extension_Type_FFI && e->struct_size >= sizeof(FfiExtension)) {
      return reinterpret_cast<const FfiExtension*>(e);
    }
  }
  return nullptr;
}

}  // namespace

bool register_ffi(const Plugin& plugin, const std::string& name, const std::string& platform, void* handler) {
  static std::mutex mutex;
  static std::set<std::tuple<const PJRT_Api*, std::string, std::string>> registered;
  const FfiExtension* extension = find_extension(plugin);
  if (extension == nullptr || extension->register_handler == nullptr) return false;
  const std::lock_guard lock(mutex);
  if (registered.contains({plugin.api(), name, platform})) return true;
  RegisterHandlerArgs args{.target_name = name.data(),
                           .target_name_size = name.size(),
                           .handler = handler,
                           .platform_name = platform.data(),
                           .platform_name_size = platform.size()};
  if (PJRT_Error* error = extension->register_handler(&args)) throw_pjrt_error(plugin, "PJRT_FFI_Register_Handler", error);
  registered.emplace(plugin.api(), name, platform);
  return true;
}

}  // namespace tessera::pjrt
