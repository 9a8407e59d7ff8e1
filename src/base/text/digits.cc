#include "base/text/digits.h"

#include <charconv>
#include <system_error>

namespace tessera {

std::optional<int64_t> parse_digits(std::string_view text) {
  int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (text.starts_with('-') || error != std::errc() || end != last) return std::nullopt;
  return value;
}

}  // namespace tessera
