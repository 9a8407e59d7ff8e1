#include "monitor/console/terminal_text.h"

#include <algorithm>

namespace tessera::monitor {
namespace {

bool begins_character(char c) { return (c & 0xc0) != 0x80; }

}  // namespace

int columns_of(std::string_view text) { return static_cast<int>(std::count_if(text.begin(), text.end(), begins_character)); }

std::string cut_to(std::string_view text, int width) {
  int seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (begins_character(text[i]) && ++seen > width) return std::string(text.substr(0, i));
  }
  return std::string(text);
}

std::string pad_left(std::string_view text, int width) {
  return std::string(static_cast<size_t>(std::max(0, width - columns_of(text))), ' ') + std::string(text);
}

}  // namespace tessera::monitor
