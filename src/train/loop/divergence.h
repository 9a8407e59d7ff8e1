#pragma once
// What to do about a run whose numbers are no numbers any more.

#include <optional>
#include <string>

#include "recipe/recipe.h"

namespace tessera::train {

// A line or more of help that fits the recipe: which of its keys to change, with their values now, and the command that goes on
// in another workdir, since another recipe is refused in this one; `checkpoint`: from whose weights it can, where there is one.
std::string divergence_help(const recipe::Recipe& recipe, const std::string& workdir,
                            const std::optional<std::string>& checkpoint);

}  // namespace tessera::train
