#pragma once
// The inference programs of a model beside its weights, for whatever runs StableHLO: JAX, IREE, any PJRT plugin.

#include <cstdint>
#include <string>

#include "inference/export_files.h"
#include "state/model_source.h"

namespace tessera::inference {

// Writes into `directory`
//   NAME.mlir          a program in StableHLO as MLIR's text, @main(weights…, inputs…); see below
//   model.safetensors  the weights, under the names of the arguments
//   signature.json     the programs, with arguments in their order and results, dtypes and shapes; the preprocessing that makes the
//                      images, whose last step (bytes to numbers) is in the program; the training chain that makes texts; the
//                      classes' names
// Programs, where B is `batch` and images are u8 [B, H, W, 3]:
//   of a classifier      model: images -> logits f32 [B, classes]
//   of images and texts  image_embeddings: images -> unit vectors f32 [B, dimensions]; text_embeddings: tokens i32 [B, length] ->
//                        the same; similarities: both -> f32 [B, B], of every image with every text, scaled as in training
//   of a captioner       encoder: images -> tokens [B, places, width]; decoder: those and captions i32 [B, length] -> logits
//                        f32 [B, length, vocabulary], each from the tokens before it
// A program has no kernel of this host. It is a usage Error when the model's preprocessing is not known or `batch` is less than 1.
void write_stablehlo_directory(const state::LoadedModel& model, const std::string& directory, int64_t batch, Existing existing);

}  // namespace tessera::inference
