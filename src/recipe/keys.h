#pragma once
// Every key of a recipe, from the structs that read them. NAME stands for what the user names: eval.NAME.every.

#include <string>
#include <vector>

#include "config/section.h"

namespace tessera::recipe {

struct SectionKeys {
  std::string name;  // empty: the recipe's own keys
  std::string help;
  std::vector<config::KeyDoc> keys;
};
const std::vector<SectionKeys>& recipe_keys();

// eval.val.every -> eval.NAME.every, data.mix.photos.weight -> data.mix.NAME.weight.
std::string with_placeholder(const std::string& key);

// Whether a recipe may have `key` (dotted; a table counts): some component has it, though perhaps not the one that a recipe names.
bool is_key(const std::string& key);
// The parts that may follow `table` (dotted; empty for the recipe): "lr" and others for "optimizer". NAME where the user names them.
std::vector<std::string> parts_below(const std::string& table);

// Where two resolved recipes differ, from that of an earlier start to that of this one. A key that the earlier one lacks and this one
// has with its default is no difference: the version that wrote it did not know the key. (Tables that a recipe may have or not, as
// [guard], count as a whole.)
std::vector<config::Difference> changed_keys(const std::string& before, const std::string& now);

// Whether a run may go on with another value of `key` (dotted): the key's own struct says so. Data sections of evaluators are
// alike, whatever their name (eval.val.train.threads).
bool key_may_change(const std::string& key);

}  // namespace tessera::recipe
