#pragma once
// Preprocessing that comes with weights: `pp = "from_weights"`.

#include <string>

#include "config/section.h"

namespace tessera::recipe {

inline constexpr const char* kFromWeights = "from_weights";

// Makes a training chain for few images from an evaluation chain: a random crop of at least 35 % of the image, mirrored at
// random, replaces the change of size. What comes before and after it stays. Throws a usage Error at `where` for images that
// are not square.
std::string training_chain(const std::string& pp, const std::string& where);

// Replaces every `pp = "from_weights"` of a recipe. An evaluator gets the chain that came with model_init's weights, and
// training training_chain() of it. Throws a usage Error where there are no such weights, or nothing beside them says how their
// images are prepared.
void take_weights_chains(config::Section recipe);

}  // namespace tessera::recipe
