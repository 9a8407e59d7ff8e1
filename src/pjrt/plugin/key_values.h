#pragma once
// What the processes of a run tell each other through a plugin: its clients exchange their devices, and NCCL its ids, by way of a
// store that whoever makes the client provides.

#include <chrono>
#include <optional>
#include <string>

namespace tessera::pjrt {

// All functions are called from threads of the plugin, several at once. Keys and values are bytes. They throw an Error where the
// store can't be reached.
class KeyValues {
 public:
  virtual ~KeyValues() = default;

  virtual void put(const std::string& key, const std::string& value) = 0;
  // Waits until a process has put it. An Error after `patience`.
  virtual std::string get(const std::string& key, std::chrono::milliseconds patience) = 0;
  // Nothing where no process has put it.
  virtual std::optional<std::string> find(const std::string& key) = 0;
};

}  // namespace tessera::pjrt
