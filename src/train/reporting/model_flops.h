#pragma once
// The arithmetic behind model FLOPs utilisation (MFU).

#include "recipe/recipe.h"

namespace tessera::train {

// What the products and convolutions of a training step need: three times the forward pass of the batch, two for each
// multiply-add; what rematerialisation computes again is not counted.
double model_flops(const recipe::Recipe& recipe);

}  // namespace tessera::train
