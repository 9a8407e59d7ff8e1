#pragma once
// The inference program of a classifier beside its weights, for whatever runs StableHLO: JAX, IREE, any PJRT plugin.

#include <cstdint>
#include <string>

#include "inference/export_files.h"
#include "state/model_source.h"

namespace tessera::inference {

// Writes into `directory`
//   model.mlir         StableHLO as MLIR's text: @main(weights…, images u8 [batch, H, W, 3]) -> logits f32 [batch, classes]
//   model.safetensors  the weights, under the names of the arguments
//   signature.json     arguments in their order and results, with dtypes and shapes; the preprocessing that makes the images,
//                      whose last step (bytes to numbers) is in the program; the classes' names
// The program has no kernel of this host. It is a usage Error when the model is no classifier, its preprocessing is not known or
// `batch` is less than 1.
void write_stablehlo_directory(const state::LoadedModel& model, const std::string& directory, int64_t batch, Existing existing);

}  // namespace tessera::inference
