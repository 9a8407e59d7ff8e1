#pragma once
// The end of work that a plugin does in the background.

#include <functional>

struct PJRT_Event;

namespace tessera::pjrt {

class Plugin;

// Move-only. A default Event is done. Dropping an Event does not wait, so whoever lent memory to the work must await() first.
class Event {
 public:
  Event() = default;
  Event(const Plugin& plugin, PJRT_Event* event) : plugin_(&plugin), event_(event) {}  // takes `event`; null is done
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  // Blocks until the work is done and throws the PjrtError it failed with. May be called again, with the same outcome.
  void await() const;
  // True once the work is done, whether it failed or not.
  bool is_ready() const;
  // Calls `then`, which must not throw, once the work is done, whether it failed or not: now, or later on a thread of the plugin.
  // The Event may be gone by then. A plugin may lack this: then nothing is called.
  void on_ready(std::function<void()> then) const;

 private:
  const Plugin* plugin_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

}  // namespace tessera::pjrt
