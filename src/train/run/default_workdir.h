#pragma once
// The directory of a run whose command names none: runs/<recipe>-N.

#include <string>

#include "store/file.h"

namespace tessera::train {

struct DefaultWorkdir {
  std::string path;
  bool continued = false;  // there is a run in it, which is not finished
};

// For `recipes/digits.toml` the newest of runs/digits-1, runs/digits-2, … that holds an unfinished run of this recipe, but for keys
// that may change (recipe/keys.h) and leave its length: one that was stopped or killed, or failed otherwise than by diverging, and that nobody
// trains now. Where there is none, or `fresh`: the first N above all that are there. `recipe` is resolved.
DefaultWorkdir default_workdir(const std::string& recipe_path, const std::string& recipe, bool fresh,
                               store::FileSystem& files = store::local_files());

}  // namespace tessera::train
