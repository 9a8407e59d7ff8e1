#include "base/printable.h"

#include <fmt/core.h>

#include <cstdint>

namespace tessera {
namespace {

struct Character {
  size_t bytes = 1;
  uint32_t code = 0;
  bool valid = true;
};

// The first character of `text`, which is not empty; one byte where it is no UTF-8 (RFC 3629: shortest form, no surrogates).
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const Character none{1, lead, false};
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return none;
  uint32_t code = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return none;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[length] || surrogate || code > 0x10ffff ? none : Character{length, code};
}

bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// Line and paragraph separators, embeddings, overrides and isolates.
bool turns_text(uint32_t code) { return (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069); }

// `plain` says which control characters stay.
template <class Plain, class Escape>
std::string escape(std::string_view text, Plain plain, Escape escaped) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const bool stays = c.valid && (plain(c.code) || !(is_control(c.code) || turns_text(c.code)));
    out += stays ? std::string(text.substr(0, c.bytes)) : escaped(c);
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string readable(const Character& c) {
  switch (c.valid ? c.code : 0u) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return c.code < 0x80 || !c.valid ? fmt::format("\\x{:02x}", c.code) : fmt::format("\\u{:04x}", c.code);
  }
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character c = first_character(text);
    if (!c.valid) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string printable(std::string_view text) {
  return escape(
      text, [](uint32_t code) { return code == '\n' || code == '\t'; }, readable);
}

std::string one_line(std::string_view name) {
  return escape(
      name, [](uint32_t) { return false; }, readable);
}

std::string printable_message(std::string_view text) {
  std::string out = printable(text);
  for (size_t at = out.find('\n'); at != std::string::npos; at = out.find('\n', at + 1)) {
    const std::string_view rest = std::string_view(out).substr(at + 1);
    const bool stays = rest.empty() || rest.starts_with('\n') || rest.starts_with("  ") || rest.starts_with("help: ");
    if (!stays) out.insert(at + 1, "  ");
  }
  return out;
}

std::string printable_json(std::string_view json) {
  return escape(
      json, [](uint32_t code) { return code == '\n' || code == '\t'; },
      [](const Character& c) { return fmt::format("\\u{:04x}", c.valid ? c.code : 0xfffd); });
}

}  // namespace tessera
