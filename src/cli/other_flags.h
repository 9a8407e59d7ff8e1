#pragma once
// What to say of a flag that there is none of: people bring the words of other trainers.

#include <string>
#include <string_view>

namespace tessera::cli {

// The help of a message about the unknown flag `flag` ("--epochs"): the flag or the recipe's key that does what other trainers
// call so. Empty where it is no word of theirs.
std::string help_for_foreign_flag(std::string_view flag);

}  // namespace tessera::cli
