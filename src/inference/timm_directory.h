#pragma once
// From our weights to other libraries' files: timm's directory (model.safetensors and config.json), Hugging Face's and
// big_vision's; and from their weights to a checkpoint of ours.

#include <string>
#include <vector>

#include "inference/export_files.h"
#include "interop/timm_config.h"
#include "recipe/recipe.h"
#include "state/model_source.h"

namespace tessera::inference {

// The inverse of timm_pp() (interop/timm_config.h): what a chain for evaluation is in timm's terms, for images of the model's
// size. `notes` gets a line for each thing that timm cannot say.
interop::TimmPreprocessing to_timm_preprocessing(const std::string& pp, const models::InputShape& input,
                                                 std::vector<std::string>& notes);

// Writes `directory`, which must be new or empty or, to be replaced or of the same run, an earlier export, with SHA256SUMS, so
// that timm.create_model("local-dir:<directory>") gives the same logits. Gives notes for the user.
std::vector<std::string> write_timm_directory(const state::LoadedModel& model, const std::string& directory,
                                              Existing existing = Existing::kRefuse);

// The same for transformers' ViTForImageClassification.from_pretrained: model.safetensors, config.json and
// preprocessor_config.json. A usage Error for a model that it can't be.
std::vector<std::string> write_hugging_face_directory(const state::LoadedModel& model, const std::string& directory,
                                                      Existing existing = Existing::kRefuse);

// Writes `path`, an .npz file as big_vision's utils.save_checkpoint wrote them: arrays params/… of its ViT, CapPa or two
// towers; and <path>.sha256. A usage Error for a model that they can't be, and for another ending.
void write_big_vision_file(const state::LoadedModel& model, const std::string& path, Existing existing = Existing::kRefuse);

// Writes the weights of `from` (what model_init.from may name, of the recipe's model) as the
// checkpoint of step 0 in <directory>/checkpoints, which must be new or empty. Gives its path; `notes` gets what was resampled
// or skipped.
std::string write_imported(const recipe::Recipe& recipe, const std::string& from, const std::string& directory,
                           std::vector<std::string>& notes);

}  // namespace tessera::inference
