#include "pjrt/plugin/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "base/text/text.h"

namespace tessera::pjrt {
namespace {

std::string status_name(int status) {
  static constexpr std::array<const char*, 17> kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  if (status >= 0 && status < static_cast<int>(kNames.size())) return kNames[static_cast<size_t>(status)];
  return fmt::format("status {}", status);
}

// These three are the first functions of the table in every version, so Plugin::load has checked that they are there.
int status_of(const PJRT_Api* api, const PJRT_Error* error) {
  PJRT_Error_GetCode_Args args{.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE, .error = error};
  PJRT_Error* failed = api->PJRT_Error_GetCode(&args);
  if (failed == nullptr) return args.code;
  PJRT_Error_Destroy_Args destroy{.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE, .error = failed};
  api->PJRT_Error_Destroy(&destroy);
  return PJRT_Error_Code_UNKNOWN;
}

std::string message_of(const PJRT_Api* api, const PJRT_Error* error) {
  PJRT_Error_Message_Args args{.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE, .error = error};
  api->PJRT_Error_Message(&args);
  return std::string(trim({args.message, args.message_size}));
}

std::string help_for(int status) {
  if (status == PJRT_Error_Code_RESOURCE_EXHAUSTED) {
    return "use a smaller batch, rematerialise more (model.remat), or split the state over more devices (mesh)";
  }
  return {};
}

}  // namespace

void destroy_error(const Plugin& plugin, PJRT_Error* error) noexcept {
  PJRT_Error_Destroy_Args args{.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE, .error = error};
  plugin.api()->PJRT_Error_Destroy(&args);
}

void throw_pjrt_error(const Plugin& plugin, const char* call, PJRT_Error* error) {
  const int status = status_of(plugin.api(), error);
  const std::string message = message_of(plugin.api(), error);
  destroy_error(plugin, error);
  throw PjrtError(call, status, fmt::format("{}: {}: {}", call, status_name(status), message), plugin.version_line(),
                  help_for(status));
}

void throw_plugin_exception(const Plugin& plugin, const char* call) {
  std::string words = "an exception";
  try {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    words = error.what();
  } catch (...) {  // of another C++ library: it has no words
  }
  constexpr int kStatus = PJRT_Error_Code_INTERNAL;
  throw PjrtError(call, kStatus, fmt::format("{}: {}: the plugin threw: {}", call, status_name(kStatus), words),
                  plugin.version_line(), help_for(kStatus));
}

void throw_missing_function(const Plugin& plugin, const char* name) {
  throw device_error(
      fmt::format("the plugin has no {}; this program was built for PJRT C API {}.{}", name, PJRT_API_MAJOR, PJRT_API_MINOR),
      plugin.version_line(), "use a newer plugin");
}

bool is_out_of_memory(const std::exception& error) {
  const auto* pjrt = dynamic_cast<const PjrtError*>(&error);
  return pjrt != nullptr && pjrt->status() == PJRT_Error_Code_RESOURCE_EXHAUSTED;
}

bool is_of_connection(const std::exception& error) {
  const auto* pjrt = dynamic_cast<const PjrtError*>(&error);
  if (pjrt == nullptr) return false;
  constexpr std::array kCodes = {PJRT_Error_Code_UNAVAILABLE, PJRT_Error_Code_ABORTED, PJRT_Error_Code_DEADLINE_EXCEEDED};
  // NCCL's words for ncclRemoteError and ncclSystemError.
  constexpr std::array<std::string_view, 2> kWords = {"remote process exited or there was a network error",
                                                      "unhandled system error"};
  return std::ranges::find(kCodes, pjrt->status()) != kCodes.end() ||
         std::ranges::any_of(kWords, [&](std::string_view words) { return pjrt->message().find(words) != std::string::npos; });
}

}  // namespace tessera::pjrt
