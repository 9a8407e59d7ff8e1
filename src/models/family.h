#pragma once
// Families of models: what a recipe's `model.name` chooses, and timm's named models among their configurations.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/section.h"

namespace tessera::models {

class Model;
class Classifier;
struct InputShape;

// One of timm's registered models.
struct TimmArchitecture {
  const char* name;
  int64_t image_size;
  const char* args;  // what it passes to its class, as JSON; what is a class or function there has a word of ours
};

struct Family {
  const char* name;   // of models.def
  const char* title;  // for lists
  // From its section of a recipe, with `data` filling in what the section leaves open.
  std::unique_ptr<Model> (*make)(config::Section section, const InputShape& data);
  // The options, for `tessera help model`.
  std::vector<config::KeyDoc> (*keys)(const std::string& prefix);
  // From arguments of timm's class, JSON; data errors name `where`. None, as all below, where timm has no such models.
  std::unique_ptr<Classifier> (*from_timm)(std::string_view args, const InputShape& input, const std::string& where) = nullptr;
  // The same arguments as keys of a recipe's section, a TOML line each.
  std::string (*keys_from_timm)(std::string_view args, const std::string& where) = nullptr;
  std::span<const TimmArchitecture> architectures;
  // Sections of a recipe, inline TOML without `name`, that are known by a name elsewhere: big_vision's sizes.
  std::vector<std::pair<const char*, const char*>> others = {};
  // Architectures to which config.json may give other arguments, the first that fits is taken; and the arguments that can't be
  // given to any, because timm fixes them by name.
  std::vector<const char*> plain, fixed;
  bool takes_image_size = false;  // timm's class has an argument img_size
  const char *first_conv = "", *classifier = "";
};

// By models.def, in its order.
const std::vector<const Family*>& families();

// The named model and its family; none: {nullptr, nullptr}.
struct NamedModel {
  const Family* family = nullptr;
  const TimmArchitecture* architecture = nullptr;
};
NamedModel find_named(std::string_view name);
// All their names.
std::vector<std::string> named_models();

// A model by name, to be made with 1000 classes.
struct NamedVariant {
  std::string name;
  std::function<std::unique_ptr<Model>()> make;
};
// The family's architectures and others.
std::vector<NamedVariant> named_variants(const Family& family);

// The arguments of the architecture that a section's `variant` names, JSON; "{}" where there is no variant. A name that the
// family doesn't have is a usage Error with the nearest one.
std::string variant_args(config::Section& section, const Family& family);
// The same for the family's others: the options of a recipe, empty where there is no variant.
std::string variant_options(config::Section& section, const Family& family);

}  // namespace tessera::models
