#include "pjrt/event.h"

#include <memory>
#include <utility>

#include "base/system/spans.h"
#include "pjrt/plugin/call.h"

namespace tessera::pjrt {
namespace {

struct Listener {
  const Plugin& plugin;
  std::function<void()> then;
};

void call_listener(PJRT_Error* error, void* given) {
  const std::unique_ptr<Listener> listener(static_cast<Listener*>(given));
  if (error) destroy_error(listener->plugin, error);
  listener->then();
}

}  // namespace

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

void Event::on_ready(std::function<void()> then) const {
  if (event_ == nullptr) return then();
  const auto call = PJRT(*plugin_, PJRT_Event_OnReady);
  if (!call.available()) return;
  std::unique_ptr<Listener> listener(new Listener{*plugin_, std::move(then)});
  call({.event = event_, .callback = call_listener, .user_arg = listener.get()});
  static_cast<void>(listener.release());  // call_listener has it
}

}  // namespace tessera::pjrt
