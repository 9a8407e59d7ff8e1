#pragma once
// One typed way to call any function of a plugin's table, used by the .cc files of this folder only:
//
//   auto out = PJRT(plugin, PJRT_Client_Compile)({.client = client_, .program = &program});
//   use(out.executable);
//
// It fills struct_size from the header, and makes sure that the plugin's table has the function. A PJRT_Error becomes a thrown
// PjrtError that names the call, and so does an exception that comes out of the plugin.

#include <pjrt_c_api.h>

#include <cstddef>
#include <optional>

#include "pjrt/plugin/error.h"
#include "pjrt/plugin/plugin.h"

namespace tessera::pjrt {

// Destroys `error` (not null) and throws the PjrtError made from it. `call` is the C function or what was waited for.
[[noreturn]] void throw_pjrt_error(const Plugin& plugin, const char* call, PJRT_Error* error);
void destroy_error(const Plugin& plugin, PJRT_Error* error) noexcept;
// In a handler of an exception that came out of the plugin: throws a PjrtError (INTERNAL) with its words. Those that say that memory
// or threads have run out pass as they are.
[[noreturn]] void throw_plugin_exception(const Plugin& plugin, const char* call);
// The plugin's table is too short for `name`, or leaves it empty.
[[noreturn]] void throw_missing_function(const Plugin& plugin, const char* name);

template <class Args, auto kMember>
struct PjrtCall {
  const Plugin& plugin;
  const char* name;
  size_t offset;     // of the function in PJRT_Api
  size_t args_size;  // the header's *_STRUCT_SIZE

  // A newer header than the plugin's knows functions that lie beyond the end of the plugin's table.
  bool available() const { return offset + sizeof(void*) <= plugin.api()->struct_size && plugin.api()->*kMember != nullptr; }
  // Calls and returns the arguments with their outputs filled in.
  Args operator()(Args args) const {
    if (!available()) throw_missing_function(plugin, name);
    args.struct_size = args_size;
    PJRT_Error* error = nullptr;
    try {
      error = (plugin.api()->*kMember)(&args);
    } catch (const InternalError&) {  // of ours, which the plugin called
      throw;
    } catch (const Error&) {
      throw;
    } catch (...) {
      throw_plugin_exception(plugin, name);
    }
    if (error) throw_pjrt_error(plugin, name, error);
    return args;
  }
  // Nothing when the plugin lacks the function or answers UNIMPLEMENTED; other failures throw.
  std::optional<Args> if_supported(Args args) const {
    if (!available()) return std::nullopt;
    try {
      return (*this)(args);
    } catch (const PjrtError& error) {
      if (error.status() == PJRT_Error_Code_UNIMPLEMENTED) return std::nullopt;
      throw;
    }
  }
  // For destructors: a failure has nobody to go to.
  void quietly(Args args) const noexcept {
    if (!available()) return;
    args.struct_size = args_size;
    if (PJRT_Error* error = (plugin.api()->*kMember)(&args)) destroy_error(plugin, error);
  }
};

}  // namespace tessera::pjrt

#define PJRT(plugin, NAME) \
  (::tessera::pjrt::PjrtCall<NAME##_Args, &PJRT_Api::NAME>{(plugin), #NAME, offsetof(PJRT_Api, NAME), NAME##_Args_STRUCT_SIZE})
