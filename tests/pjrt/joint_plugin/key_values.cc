#include "key_values.h"

#include "inner.h"

namespace tessera::joint {
namespace {

constexpr int kPatienceMilliseconds = 120'000;

PJRT_Error* callers_error(PJRT_Error_Code code, const char* message, size_t size) {
  return error_of(code, std::string(message, size));
}
PJRT_CallbackError g_callers_error = callers_error;

// The value, which the caller takes back.
template <class Args>
std::string taken(const Args& args) {
  std::string value(args.value, args.value_size);
  args.value_deleter_callback(args.value);
  return value;
}

}  // namespace

KeyValues::KeyValues(const PJRT_Client_Create_Args& args)
    : get_(args.kv_get_callback),
      put_(args.kv_put_callback),
      try_get_(args.kv_try_get_callback),
      get_argument_(args.kv_get_user_arg),
      put_argument_(args.kv_put_user_arg),
      try_get_argument_(args.kv_try_get_user_arg) {}

void KeyValues::put(const std::string& key, const std::string& value) const {
  PJRT_KeyValuePutCallback_Args args{.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE,
                                     .key = key.data(),
                                     .key_size = key.size(),
                                     .value = value.data(),
                                     .value_size = value.size(),
                                     .callback_error = &g_callers_error,
                                     .user_arg = put_argument_};
  check(put_(&args));
}

std::string KeyValues::get(const std::string& key) const {
  PJRT_KeyValueGetCallback_Args args{.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE,
                                     .key = key.data(),
                                     .key_size = key.size(),
                                     .timeout_in_ms = kPatienceMilliseconds,
                                     .callback_error = &g_callers_error,
                                     .user_arg = get_argument_};
  check(get_(&args));
  return taken(args);
}

std::optional<std::string> KeyValues::try_get(const std::string& key) const {
  if (try_get_ == nullptr) return std::nullopt;
  PJRT_KeyValueTryGetCallback_Args args{.struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE,
                                        .key = key.data(),
                                        .key_size = key.size(),
                                        .callback_error = &g_callers_error,
                                        .user_arg = try_get_argument_};
  try {
    check(try_get_(&args));
  } catch (const Failure& failure) {
    if (failure.code == PJRT_Error_Code_NOT_FOUND) return std::nullopt;
    throw;
  }
  return taken(args);
}

}  // namespace tessera::joint
