#include "cluster/group/environment.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/digits.h"

namespace tessera::group {

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  };
}

int64_t whole_number(const char* name, const std::string& text) {
  const auto value = parse_digits(text);
  if (!value) throw usage_error(fmt::format("{} is `{}`, which is no whole number", name, one_line(text)), "the environment");
  return *value;
}

}  // namespace tessera::group
