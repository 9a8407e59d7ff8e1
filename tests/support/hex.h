#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tessera::testing {

// Two lower-case digits a byte.
inline std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace tessera::testing
