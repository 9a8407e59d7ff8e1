#pragma once
// The profiler of a plugin, which records what its devices do.

#include <memory>
#include <optional>
#include <string>

#include "pjrt/plugin/plugin.h"

namespace tessera::pjrt {

// One recording. It begins with start(), and there may be one at a time in a process.
class Profiler {
 public:
  // Begins to record; nothing where the plugin has no profiler (XLA's CPU plugin has none). Throws a device Error with the
  // plugin's words when it refuses.
  static std::optional<Profiler> start(std::shared_ptr<const Plugin> plugin);
  ~Profiler();
  Profiler(Profiler&&) noexcept;
  Profiler& operator=(Profiler&&) noexcept;

  // Ends the recording and gives what was recorded: the bytes of an XSpace message (tsl/profiler/protobuf/xplane.proto), times
  // in nanoseconds since 1970. Once.
  std::string stop();

 private:
  struct Session;
  explicit Profiler(std::unique_ptr<Session> session);
  std::unique_ptr<Session> session_;
};

}  // namespace tessera::pjrt
