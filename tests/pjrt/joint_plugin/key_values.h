#pragma once
// The store of keys and values that the caller of PJRT_Client_Create lends to its plugin.

#include <pjrt_c_api.h>

#include <optional>
#include <string>

namespace tessera::joint {

// All calls throw a Failure with what the caller's function says.
class KeyValues {
 public:
  KeyValues() = default;
  explicit KeyValues(const PJRT_Client_Create_Args& args);

  // Whether there are functions to put and to get.
  bool given() const { return get_ != nullptr && put_ != nullptr; }
  void put(const std::string& key, const std::string& value) const;
  // Waits 120 s at most.
  std::string get(const std::string& key) const;
  // Nothing where nobody put it yet, or where the caller gave no such function.
  std::optional<std::string> try_get(const std::string& key) const;

 private:
  PJRT_KeyValueGetCallback get_ = nullptr;
  PJRT_KeyValuePutCallback put_ = nullptr;
  PJRT_KeyValueTryGetCallback try_get_ = nullptr;
  void* get_argument_ = nullptr;
  void* put_argument_ = nullptr;
  void* try_get_argument_ = nullptr;
};

}  // namespace tessera::joint
