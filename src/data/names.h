#pragma once
// Lists of names in calls: text=caption, text=[caption, title].

#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// "caption" -> it alone, "[caption, title]" -> both; spaces and quotes around them dropped.
std::vector<std::string> parse_names(std::string_view text);

}  // namespace tessera::data
