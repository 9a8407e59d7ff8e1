#pragma once
// How deep a TOML text nests, found without building anything. toml++ bounds brackets alone: tables of dotted keys (a.a.a… = 1)
// it nests as deep as they are written, and taking them apart then runs out of stack. Internal to config.

#include <cstddef>
#include <optional>
#include <string_view>

namespace tessera::config {

inline constexpr size_t kMaxTomlDepth = 64;

// The line, counted from 1, on which `text` nests deeper than kMaxTomlDepth: headers, dotted keys and brackets together.
std::optional<size_t> find_deep_line(std::string_view text);

}  // namespace tessera::config
