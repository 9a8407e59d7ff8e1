#pragma once
// From a checkpoint, however many files and slices it has, to one file of parameters that every reader of safetensors knows.

#include <string>

#include "inference/export_files.h"
#include "state/model_source.h"

namespace tessera::inference {

// Writes the parameters (or their averages) of `from` (a checkpoint, or a workdir's newest whole one) as the safetensors file
// `path`: whole arrays under the names that recipes use. The file is there whole or not at all. One array that lies in slices
// is in memory at a time. Gives the checkpoint's path. Anything else at `from`, a `path` that is a directory or is not named
// *.safetensors, and one that is there and not to be replaced, is a usage Error. <path>.sha256 comes beside it.
std::string write_plain_weights(const std::string& from, const std::string& path, state::Weights weights = state::Weights::kRaw,
                                Existing existing = Existing::kRefuse);

}  // namespace tessera::inference
