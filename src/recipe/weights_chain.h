#pragma once
// Preprocessing that comes with weights: `pp = "from_weights"`.

#include <string>

#include "config/section.h"

namespace tessera::recipe {

inline constexpr const char* kFromWeights = "from_weights";

// For training on few images, from a chain for evaluation: what comes before and after its change of size stays, and that becomes a
// random crop, of 35 % of the image or more, which is mirrored at random. A usage Error at `where` for images that are not square.
std::string training_chain(const std::string& pp, const std::string& where);

// Puts chains in the place of every `pp = "from_weights"` of a recipe: of evaluators the one that model_init's weights came with, of
// training's data training_chain() of that. A usage Error where there are no such weights, or nothing beside them says how their
// images are prepared.
void take_weights_chains(config::Section recipe);

}  // namespace tessera::recipe
