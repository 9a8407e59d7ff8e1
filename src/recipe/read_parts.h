#pragma once
// Parts of read_recipe() that have files of their own.

#include <cstdint>
#include <string>

#include "config/section.h"
#include "recipe/recipe.h"

namespace tessera::recipe {

// The steps that `key` of the section writes as a duration. Throws a usage Error at it.
int64_t steps_of(const config::Section& section, const char* key, const std::string& text, const optim::RunLength& length);

// Checks that the model takes the images that the data's chain makes, or with `crops` crops of them. Throws a usage Error at
// `pp` of the section.
void check_input(const config::Section& section, const models::Model& model, const Data& opened, bool crops = false);

// Finds the scores that `checkpoint.best` and `early_stop` name. Throws a usage Error for a name that no evaluator of the
// recipe gives, also as a plateau's metric, and where the scores of averaged weights would have the name of another
// evaluator's.
void read_scores(const config::Section& recipe, const config::Section& checkpoint, const optim::RunLength& length, Recipe& out);

void read_monitor(config::Section section, const optim::RunLength& length, Recipe& out);

}  // namespace tessera::recipe
