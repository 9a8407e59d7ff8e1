#pragma once
// The keys of metrics.jsonl that the clock and the machine decide; all others are a function of recipe and data.

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace tessera::testing {

inline bool is_clock_key(std::string_view key) {
  constexpr std::string_view kPrefixes[] = {"img/sec", "input_wait", "input/",  "uptime",  "core_hours",
                                            "z/",      "y/",         "goodput", "badput/", "mfu"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return key.starts_with(prefix); });
}

// Takes them out of an object.
template <class Json>
void erase_clock_keys(Json& line) {
  for (auto entry = line.begin(); entry != line.end();) {
    entry = is_clock_key(entry.key()) ? line.erase(entry) : std::next(entry);
  }
}

}  // namespace tessera::testing
