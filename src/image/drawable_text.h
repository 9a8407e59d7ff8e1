#pragma once
// Names in the letters that draw_text() has.

#include <string>
#include <string_view>

namespace tessera::image {

// ASCII, by ICU's "Any-Latin; Latin-ASCII": "Käfer" becomes "Kafer", "кот" "kot" and "猫" "mao". What has no such form, and what is no
// UTF-8, becomes one '\x7f' a character, which is drawn as a box. ASCII is itself. Thread-safe.
std::string drawable_text(std::string_view text);

}  // namespace tessera::image
