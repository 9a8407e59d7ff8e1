#include "base/text/base64.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

const unsigned char* unsigned_bytes(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and a zero
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), unsigned_bytes(bytes), static_cast<int>(bytes.size()));
  TESSERA_CHECK(length + 1 == static_cast<int>(text.size()), "{} characters for {} bytes", length, bytes.size());
  text.pop_back();
  return text;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  if (text.empty()) return bytes;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  // libcrypto takes white space and '-' too, and padding anywhere.
  const auto is_digit = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
  };
  if (!std::ranges::all_of(text.substr(0, text.size() - padding), is_digit)) return std::nullopt;
  const int length =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), unsigned_bytes(text), static_cast<int>(text.size()));
  if (length != static_cast<int>(bytes.size())) return std::nullopt;
  bytes.erase(bytes.size() - padding);
  return bytes;
}

}  // namespace tessera
