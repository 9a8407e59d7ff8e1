#include "models/model.h"

#include "base/error.h"
#include "base/text.h"
#include "ir/ops.h"
#include "models/cappa.h"
#include "models/vit.h"

namespace tessera::models {
namespace {

using Factory = std::unique_ptr<Model> (*)(config::Section, const InputShape&);

struct Entry {
  const char* name;
  Factory make;
};

constexpr Entry kModels[] = {
#define MODEL(name, factory) {name, &factory},
#include "models/models.def"
#undef MODEL
};

}  // namespace

ir::Value blank_images(const InputShape& input, int64_t batch) {
  return ir::zeros({DType::kF32, {batch, input.height, input.width, input.channels}});
}

ir::Value Classifier::trace(const nn::Scope& scope) const { return logits(scope, blank_images(input())); }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kModels) names.push_back(entry.name);
  return names;
}

std::unique_ptr<Model> make_model(config::Section section, const InputShape& data) {
  const std::string name = section.name();
  for (const Entry& entry : kModels) {
    if (entry.name == name) return entry.make(std::move(section), data);
  }
  throw usage_error(fmt::format("there is no model `{}`", name), section.place("name"), suggest_name(name, model_names()));
}

std::vector<nn::ParamSpec> parameters(const Model& model) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  model.trace(nn::Scope(store, {}));
  return store.specs();
}

}  // namespace tessera::models
