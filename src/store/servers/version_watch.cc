#include "store/servers/version_watch.h"

#include "store/servers/object_server.h"

namespace tessera::store {

void refuse_replaced() {
  throw ServerError("another version of it took its place while it was read",
                    "start again, so that all of it is of one version; give new data a new name", false);
}

void VersionWatch::read() {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep last = looked_;
  // One of the threads that read asks.
  if (Clock::duration(now - last) >= every_ && looked_.compare_exchange_strong(last, now)) look();
  if (replaced_) refuse_replaced();
}

void VersionWatch::failed() {
  look();
  if (replaced_) refuse_replaced();
}

void VersionWatch::look() {
  if (tag_.empty() || replaced_) return;
  try {
    const std::string now = ask_();
    if (!now.empty() && now != tag_ && ask_() == now) replaced_ = true;  // one answer may be damaged on the way
  } catch (const ServerError&) {
    // Where that lasts, reading says so.
  }
}

}  // namespace tessera::store
