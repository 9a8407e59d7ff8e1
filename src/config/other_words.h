#pragma once
// What other trainers call the keys of a recipe, for messages.

#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

// The candidate that `key` was meant for: near by spelling, or another system's word for it (learning_rate for lr); or "".
std::string suggest_key(std::string_view key, const std::vector<std::string>& candidates);
// The same without what is only near by spelling.
std::string same_key(std::string_view key, const std::vector<std::string>& candidates);
// suggest_name() of a value, as an objective's name, that knows other systems' words for one (cross_entropy for softmax).
std::string suggest_value(std::string_view value, const std::vector<std::string>& candidates);
// How a value is written where `key`, another system's word, is `meant` here and takes values of another kind: epochs for
// total gives `total = "90 epochs"`. Else "".
std::string example_of(std::string_view key, std::string_view meant);

// What to say of another system's word (with underscores: "output_dir") for which there is a flag, a section or a part of a value
// here, and no key of one value; empty where it is no such word.
std::string other_help(std::string_view word);

}  // namespace tessera::config
