#include "pjrt/tpu_chips.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace tessera::pjrt {
namespace {

constexpr std::string_view kGoogle = "0x1ae0";
constexpr auto kChips = std::to_array<std::string_view>({
    "0x0027",            // v2, v3
    "0x0056",            // without a public name
    "0x005e",            // v4
    "0x0062", "0x0063",  // v5p, v5e
    "0x006f",            // v6e
    "0x0076",            // 7x
    "0x0083", "0x007c",  // 8i, 8t
});

std::string word_in(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

}  // namespace

int tpu_chips(const std::string& bus) {
  std::error_code error;
  int chips = 0;
  for (std::filesystem::directory_iterator entry(bus, error), end; !error && entry != end; entry.increment(error)) {
    if (word_in(entry->path() / "vendor") != kGoogle) continue;
    if (std::ranges::find(kChips, word_in(entry->path() / "device")) != kChips.end()) ++chips;
  }
  return chips;
}

}  // namespace tessera::pjrt
