#pragma once
// The data sections of a recipe, without the rest of it: `tessera data …` needs no model.

#include <memory>
#include <string>
#include <vector>

#include "config/section.h"
#include "data/pp.h"
#include "data/source.h"
#include "train/recipe.h"

namespace tessera::cli {

struct DataSection {
  std::string key;  // "data", "eval.val.data"
  train::DataOptions options;
  std::shared_ptr<const data::Source> source;
  std::shared_ptr<const data::Pp> pp;  // null where the recipe has none
};

// `data` and every eval.NAME.data that have a source. None at all is a usage Error.
std::vector<DataSection> open_data_sections(config::Section recipe);

}  // namespace tessera::cli
