#pragma once
// The data sections of a recipe, without the rest of it: `tessera data …` needs no model.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/section.h"
#include "data/source.h"
#include "data/transform/pp.h"
#include "recipe/recipe.h"

namespace tessera::cli {

struct DataSection {
  std::string key;  // "data", "eval.val.data"
  recipe::DataOptions options;
  std::shared_ptr<const data::Source> source;
  std::shared_ptr<const data::Pp> pp;  // null where the recipe has none
  image::DecodeLimits limits;
};

// `data` and every eval.NAME.data and eval.NAME.train that have a source. None at all is a usage Error.
std::vector<DataSection> open_data_sections(config::Section recipe);

// What `tessera data check|index|convert` work on: RECIPE, all its data; FOLDER, as folder(FOLDER); or a source's call.
struct NamedSource {
  std::string split;  // "train" of `data` and of a single source, NAME of data.mix.NAME and eval.NAME.data, NAME_train
  std::string call;
  std::shared_ptr<const data::Source> source;
  std::shared_ptr<const data::Pp> pp;  // of a recipe's; null where it has none
  int64_t threads = 0;
  image::DecodeLimits limits = {};
  std::string key = {};  // in the recipe: "data", "data.mix.cats", "eval.val.data"; empty where there is none
};
std::vector<NamedSource> open_sources(const std::vector<std::string>& words, std::string_view command);

}  // namespace tessera::cli
