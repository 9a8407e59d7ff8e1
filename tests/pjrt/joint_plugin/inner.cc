#include "inner.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "table.h"

namespace tessera::joint {
namespace {

struct OwnError {
  PJRT_Error_Code code;
  std::string message;
};

Table<const PJRT_Error*, const OwnError*>& own_errors() {
  static auto& errors = *new Table<const PJRT_Error*, const OwnError*>();
  return errors;
}

const PJRT_Api* load_inner() {
  const char* path = std::getenv("TESSERA_JOINT_INNER");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const auto get_api = library == nullptr ? nullptr : reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api != nullptr) return get_api();
  std::fprintf(stderr, "TESSERA_JOINT_INNER names no plugin: %s\n", path == nullptr ? "it is not set" : dlerror());
  return nullptr;
}

}  // namespace

const PJRT_Api* inner() {
  static const PJRT_Api* const api = load_inner();
  return api;
}

PJRT_Error* error_of(PJRT_Error_Code code, const std::string& message) {
  const auto* own = new OwnError{code, message};
  auto* error = const_cast<PJRT_Error*>(reinterpret_cast<const PJRT_Error*>(own));
  own_errors().put(error, own);
  return error;
}

void destroy_error(PJRT_Error_Destroy_Args* args) {
  if (const auto own = own_errors().take(args->error)) {
    delete *own;
  } else {
    inner()->PJRT_Error_Destroy(args);
  }
}

void error_message(PJRT_Error_Message_Args* args) {
  if (const auto own = own_errors().find(args->error)) {
    args->message = (*own)->message.data();
    args->message_size = (*own)->message.size();
  } else {
    inner()->PJRT_Error_Message(args);
  }
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  const auto own = own_errors().find(args->error);
  if (!own) return inner()->PJRT_Error_GetCode(args);
  args->code = (*own)->code;
  return nullptr;
}

void check(PJRT_Error* error) {
  if (error == nullptr) return;
  PJRT_Error_GetCode_Args code{.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE, .error = error};
  error_code(&code);
  PJRT_Error_Message_Args message{.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE, .error = error};
  error_message(&message);
  const Failure failure(code.code, std::string(message.message, message.message_size));
  PJRT_Error_Destroy_Args destroy{.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE, .error = error};
  destroy_error(&destroy);
  throw failure;
}

void await(PJRT_Event* event) {
  if (event == nullptr) return;
  PJRT_Event_Await_Args args{.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE, .event = event};
  PJRT_Error* error = inner()->PJRT_Event_Await(&args);
  INNER(PJRT_Event_Destroy)({.event = event});
  check(error);
}

}  // namespace tessera::joint
