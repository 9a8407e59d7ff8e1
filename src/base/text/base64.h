#pragma once
// Base64 (RFC 4648), by libcrypto.

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

std::string base64(std::string_view bytes);
// Nothing for what is no Base64.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace tessera
