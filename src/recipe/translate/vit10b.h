#pragma once
// run_vit_training.py of the PyTorch/XLA example that trains a ViT of 10 billion parameters with FSDP
// (ronghanghu/vit_10b_fsdp_example d672ec7) as a recipe.

#include <span>
#include <string>
#include <vector>

#include "recipe/translate/arguments.h"

namespace tessera::translate {

std::span<const Argument> vit10b_arguments();

// `words`: the arguments of run_vit_training.py, or a command that has that in it; KEY=VALUE are settings of the recipe. Usage
// Errors for what is unknown.
Translation translate_vit10b(std::vector<std::string> words);

}  // namespace tessera::translate
