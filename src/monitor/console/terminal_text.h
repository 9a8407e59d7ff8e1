#pragma once
// How wide text is on a terminal, for UTF-8 whose characters are all one column wide.

#include <string>
#include <string_view>

namespace tessera::monitor {

int columns_of(std::string_view text);
// The first `width` columns.
std::string cut_to(std::string_view text, int width);
// With blanks before it, `width` columns at least.
std::string pad_left(std::string_view text, int width);

}  // namespace tessera::monitor
