#pragma once
// Variables of the environment of a process, or those that a test names.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tessera::group {

// The value of a variable; nothing where it is not set or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

// The number that `text`, the value of `name`, is. A usage Error where it is none.
int64_t whole_number(const char* name, const std::string& text);

}  // namespace tessera::group
