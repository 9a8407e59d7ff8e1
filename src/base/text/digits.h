#pragma once
// Whole numbers written in digits, as in names of files, answers of servers and variables.

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

// The number that `text` is, of digits alone; nothing where it has anything else, has none, or is 2^63 or more.
std::optional<int64_t> parse_digits(std::string_view text);

}  // namespace tessera
