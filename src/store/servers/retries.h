#pragma once
// Requests to servers that are tried again.

#include <functional>
#include <string>
#include <string_view>

namespace tessera::store {

// Calls `call` until it succeeds; a ServerError that passes is tried again after a growing pause. `action` completes "cannot … `url`".
// Throws a data Error that says what the server said and what to do.
void ask(std::string_view action, const std::string& url, const std::function<void()>& call);

}  // namespace tessera::store
