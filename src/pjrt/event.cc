#include "pjrt/event.h"

#include <utility>

#include "base/system/spans.h"
#include "pjrt/plugin/call.h"

namespace tessera::pjrt {

Event::Event(Event&& other) noexcept : plugin_(other.plugin_), event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(plugin_, other.plugin_);
  std::swap(event_, other.event_);
  return *this;
}

Event::~Event() {
  if (event_ != nullptr) PJRT(*plugin_, PJRT_Event_Destroy).quietly({.event = event_});
}

void Event::await() const {
  if (event_ == nullptr) return;
  const Span span(SpanKind::kRuntime, "wait for the device");
  PJRT(*plugin_, PJRT_Event_Await)({.event = event_});
}

bool Event::is_ready() const { return event_ == nullptr || PJRT(*plugin_, PJRT_Event_IsReady)({.event = event_}).is_ready; }

}  // namespace tessera::pjrt
