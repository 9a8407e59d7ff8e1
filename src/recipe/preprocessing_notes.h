#pragma once
// Notes about images that are prepared in another way than those the model was made with, and about evaluators that see images
// of training. It need not be a mistake, so a note says it.

#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace tessera::recipe {

// A note for each evaluator whose images have another mean and deviation, or another range, than training's; and for each whose
// images are held out, by part(…), of the source of training, which has some of them all the same.
std::vector<std::string> evaluation_notes(const Recipe& recipe);

// What the recipe does otherwise than `weights_pp`, the evaluation chain that comes with the weights to begin with
// (state::preprocessing_of): values, image size and interpolation. It compares the first evaluator's interpolation, since
// training's may be random. Nothing where all is the same, or the chain is empty.
std::optional<std::string> weights_note(const Recipe& recipe, const std::string& weights_pp);

// A chain that makes images of the size and the values that training's have, for a recipe whose evaluators say none:
// "decode | resize(16) | value_range(-1, 1)".
std::string size_and_values(const Recipe& recipe);

}  // namespace tessera::recipe
