#pragma once
// The arguments in a YAML file, as timm's `-c` takes them.

#include <string>

#include "recipe/translate/arguments.h"

namespace tessera::translate {

// A mapping from names to values: text, numbers, true or false, lists of these, and tables for name=value arguments. Empty
// values count as not given. Usage Errors name the file and the line.
void read_yaml(const std::string& path, Arguments& arguments);

}  // namespace tessera::translate
