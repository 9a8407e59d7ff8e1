#pragma once
// The files of the page (page/, dygraphs' and the style of reports), which are part of the program.

#include <string>
#include <string_view>

namespace tessera::board {

struct Asset {
  std::string type;
  std::string_view body;
};

// "" is the page itself; "board.js" and others are found at /assets/. Null for what there is not.
const Asset* find_asset(std::string_view name);

}  // namespace tessera::board
