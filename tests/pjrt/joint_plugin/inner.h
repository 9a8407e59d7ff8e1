#pragma once
// The plugin inside: its table, calls of it that throw, and errors of our own beside its errors.

#include <pjrt_c_api.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace tessera::joint {

struct Failure : std::runtime_error {
  Failure(PJRT_Error_Code failure_code, const std::string& message) : std::runtime_error(message), code(failure_code) {}
  PJRT_Error_Code code;
};

// The table of the library that $TESSERA_JOINT_INNER names; null where it can't be loaded, with the reason on stderr.
const PJRT_Api* inner();

// An error of our own; the functions below take these as well as the inner plugin's.
PJRT_Error* error_of(PJRT_Error_Code code, const std::string& message);
void destroy_error(PJRT_Error_Destroy_Args* args);
void error_message(PJRT_Error_Message_Args* args);
PJRT_Error* error_code(PJRT_Error_GetCode_Args* args);

// Throws a Failure made from `error`, which it destroys; nothing where that is null.
void check(PJRT_Error* error);
// Waits for `event`, which may be null, destroys it, and throws what it tells.
void await(PJRT_Event* event);

// What `f` throws as an error: each function of our table that may fail is one of these.
template <class F>
PJRT_Error* guarded(F&& f) {
  try {
    f();
    return nullptr;
  } catch (const Failure& failure) {
    return error_of(failure.code, failure.what());
  } catch (const std::exception& error) {
    return error_of(PJRT_Error_Code_INTERNAL, error.what());
  }
}

// INNER(PJRT_Buffer_ElementType)({.buffer = buffer}).type
template <class Args, auto kMember>
struct InnerCall {
  size_t args_size;

  Args operator()(Args args) const {
    args.struct_size = args_size;
    check((inner()->*kMember)(&args));
    return args;
  }
};

}  // namespace tessera::joint

#define INNER(NAME) (::tessera::joint::InnerCall<NAME##_Args, &PJRT_Api::NAME>{NAME##_Args_STRUCT_SIZE})
