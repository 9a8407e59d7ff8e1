#include "pjrt/plugin/key_value_callbacks.h"

#include <algorithm>
#include <exception>
#include <memory>

#include "base/error.h"

namespace tessera::pjrt {
namespace {

KeyValues& store_of(void* user_arg) { return *static_cast<KeyValues*>(user_arg); }

void delete_value(char* value) { delete[] value; }

// Of an answer: the plugin deletes it by delete_value().
template <class Args>
void give_value(const std::string& value, Args& args) {
  auto bytes = std::make_unique<char[]>(value.size());
  std::ranges::copy(value, bytes.get());
  args.value_size = value.size();
  args.value_deleter_callback = delete_value;
  args.value = bytes.release();
}

// What `answer` throws, as the plugin's error: no exception may pass through it.
template <class Args, class Fn>
PJRT_Error* guarded(Args& args, Fn&& answer) noexcept {
  const auto failed = [&](PJRT_Error_Code code, std::string_view text) {
    return (*args.callback_error)(code, text.data(), text.size());
  };
  try {
    return answer(failed);
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception& error) {
    return failed(PJRT_Error_Code_UNAVAILABLE, error.what());
  }
}

PJRT_Error* get(PJRT_KeyValueGetCallback_Args* args) {
  return guarded(*args, [&](const auto&) -> PJRT_Error* {
    // A wait without an end may be more milliseconds than the number holds.
    const std::chrono::milliseconds patience =
        args->timeout_in_ms < 0 ? std::chrono::hours(24) : std::chrono::milliseconds(args->timeout_in_ms);
    give_value(store_of(args->user_arg).get({args->key, args->key_size}, patience), *args);
    return nullptr;
  });
}

PJRT_Error* find(PJRT_KeyValueTryGetCallback_Args* args) {
  return guarded(*args, [&](const auto& failed) -> PJRT_Error* {
    const std::string key(args->key, args->key_size);
    const std::optional<std::string> value = store_of(args->user_arg).find(key);
    if (!value) return failed(PJRT_Error_Code_NOT_FOUND, "no process has put " + key);
    give_value(*value, *args);
    return nullptr;
  });
}

PJRT_Error* put(PJRT_KeyValuePutCallback_Args* args) {
  return guarded(*args, [&](const auto&) -> PJRT_Error* {
    store_of(args->user_arg).put({args->key, args->key_size}, {args->value, args->value_size});
    return nullptr;
  });
}

}  // namespace

void give_callbacks(KeyValues& store, PJRT_Client_Create_Args& args) {
  args.kv_get_callback = get;
  args.kv_put_callback = put;
  args.kv_try_get_callback = find;
  args.kv_get_user_arg = args.kv_put_user_arg = args.kv_try_get_user_arg = &store;
}

}  // namespace tessera::pjrt
