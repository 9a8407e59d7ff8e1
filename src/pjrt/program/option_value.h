#pragma once
// Options by name, as plugins take them when a client or a topology is made and when a program is compiled.

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tessera::pjrt {

// The plugin checks the alternative as well as the name: a float option does not take an integer.
using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;
using Options = std::map<std::string, OptionValue>;

}  // namespace tessera::pjrt
