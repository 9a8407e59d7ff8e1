#pragma once
// Where images are made otherwise than the model is used to: no mistake for certain, and worth a word.

#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace tessera::recipe {

// Of evaluators whose images have other values (mean and deviation, or range) than training's.
std::vector<std::string> evaluation_notes(const Recipe& recipe);

// Of weights to begin with: values, size and interpolation that the recipe has otherwise than `weights_pp`, the chain for
// evaluation that comes with them (state::preprocessing_of). Interpolation is that of the first evaluator, since training's may
// be random. Nothing where all is the same, or the chain is empty.
std::optional<std::string> weights_note(const Recipe& recipe, const std::string& weights_pp);

}  // namespace tessera::recipe
