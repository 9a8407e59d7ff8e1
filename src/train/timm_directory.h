#pragma once
// From our weights to timm's directory (model.safetensors and config.json), and from timm's weights to a checkpoint of ours.

#include <string>
#include <vector>

#include "models/timm_config.h"
#include "train/model_source.h"
#include "train/recipe.h"

namespace tessera::train {

// The inverse of timm_pp() (model_source.h): what a chain for evaluation is in timm's terms, for images of the model's size.
// `notes` gets a line for each thing that timm cannot say.
models::TimmPreprocessing to_timm_preprocessing(const std::string& pp, const models::InputShape& input,
                                                std::vector<std::string>& notes);

// Writes `directory`, made when missing, so that timm.create_model("local-dir:<directory>") gives the same logits. Gives notes
// for the user.
std::vector<std::string> write_timm_directory(const LoadedModel& model, const std::string& directory);

// Writes the weights of `from` (a timm directory or a .safetensors file of timm's names, of the recipe's model) as the
// checkpoint of step 0 in <directory>/checkpoints, which must be new or empty. Gives its path; `notes` gets what was resampled
// or skipped.
std::string write_imported(const Recipe& recipe, const std::string& from, const std::string& directory,
                           std::vector<std::string>& notes);

}  // namespace tessera::train
