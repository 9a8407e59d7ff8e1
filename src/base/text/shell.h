#pragma once
// Commands that a message shows, to be copied into a shell.

#include <string>
#include <string_view>

namespace tessera {

// The word as a shell takes it for one: in quotes where it needs them.
std::string shell_quoted(std::string_view word);

}  // namespace tessera
