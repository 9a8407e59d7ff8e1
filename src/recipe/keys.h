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

// Whether a run may go on with another value of `key` (dotted): the key's own struct says so. Data sections of evaluators are
// alike, whatever their name (eval.val.train.threads).
bool key_may_change(const std::string& key);

}  // namespace tessera::recipe
