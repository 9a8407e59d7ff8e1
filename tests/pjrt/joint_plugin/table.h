#pragma once
// What is known of a plugin's handles beyond what the plugin knows.

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace tessera::joint {

// Thread-safe. Values are copied out: pointers, or small.
template <class Handle, class Value>
class Table {
 public:
  void put(Handle handle, Value value) {
    std::optional<Value> before;  // its destructor may call the plugin
    const std::scoped_lock lock(mutex_);
    if (const auto found = values_.find(handle); found != values_.end()) before = std::move(found->second);
    values_[handle] = std::move(value);
  }
  std::optional<Value> find(Handle handle) const {
    const std::scoped_lock lock(mutex_);
    const auto found = values_.find(handle);
    return found == values_.end() ? std::nullopt : std::optional<Value>(found->second);
  }
  // find() and no longer there.
  std::optional<Value> take(Handle handle) {
    const std::scoped_lock lock(mutex_);
    const auto found = values_.find(handle);
    if (found == values_.end()) return std::nullopt;
    std::optional<Value> value(std::move(found->second));
    values_.erase(found);
    return value;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Handle, Value> values_;
};

}  // namespace tessera::joint
