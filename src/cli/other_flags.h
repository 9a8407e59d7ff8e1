#pragma once
// Help for unknown flags and words: people bring the names that other trainers use.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

// The help of a message about the unknown flag `flag` ("--epochs"): the flag or the recipe's key that does what other trainers
// call so. Empty where it is no word of theirs.
std::string help_for_unknown_flag(std::string_view flag);

// For Flags::explain_unknown of a command that calls a thing otherwise than other programs: `help` where the flag is one of
// `words`, their names for it ("port host").
std::function<std::string(const std::string&)> explain_words(const std::string& words, std::string help);

// The key of a recipe that people mean by a word, written as a flag or a key: its last part, or other trainers' name for it
// ("epochs" for total). Of several the one with the fewest parts; empty where there is none.
std::string key_called(std::string_view word);

// A usage Error where one of `settings` ("data.batch=8") is of a key that no component has, as reading the recipe gives. For a
// recipe that is shown and not read, as its data need not be there.
void refuse_unknown_settings(const std::vector<std::string>& settings);

}  // namespace tessera::cli
