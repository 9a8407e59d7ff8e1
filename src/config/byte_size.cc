#include "config/byte_size.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::config {

int64_t parse_byte_size(std::string_view text, std::string_view where) {
  constexpr double kKi = 1024;
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"TiB", kKi * kKi * kKi * kKi},
                                                                   {"GiB", kKi * kKi * kKi},
                                                                   {"MiB", kKi * kKi},
                                                                   {"KiB", kKi},
                                                                   {"TB", 1e12},
                                                                   {"GB", 1e9},
                                                                   {"MB", 1e6},
                                                                   {"KB", 1e3},
                                                                   {"B", 1}};
  std::string_view number = trim(text);
  double unit = 1;
  for (const auto& [name, bytes] : kUnits) {
    if (!number.ends_with(name)) continue;
    number.remove_suffix(name.size());
    unit = bytes;
    break;
  }
  const auto value = parse_number(trim(number));
  if (!value || !(*value * unit >= 1) || *value * unit > 1e15) {
    throw usage_error(fmt::format("\"{}\" is no size in bytes", text), std::string(where), "a size as 256MiB or 1GB");
  }
  return static_cast<int64_t>(*value * unit);
}

}  // namespace tessera::config
