#pragma once

#include <functional>
#include <string>

namespace tessera {

// Told of every log_warning() (base/log.h), on the thread that gives it; null for nobody. It may still be running on another
// thread when this returns.
void set_warning_listener(std::function<void(const std::string& text)> listener);

}  // namespace tessera
