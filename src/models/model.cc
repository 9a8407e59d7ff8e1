#include "models/model.h"

#include <algorithm>

#include "base/error.h"
#include "base/pattern.h"
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

std::vector<int64_t> parameter_layers(const Model& model, const std::vector<nn::ParamSpec>& specs) {
  PatternRules<int64_t> rules;
  for (const LayerRule& rule : model.layers()) rules.rules.push_back({Pattern(rule.pattern), rule.first});
  if (rules.rules.empty()) return {};
  int64_t last = 0;
  std::vector<int64_t> layers;
  for (const nn::ParamSpec& spec : specs) {
    const int64_t* first = rules.find(spec.name);
    layers.push_back(first ? *first : -1);
    if (first) last = std::max(last, *first + (spec.stacked ? spec.type.dims[0] - 1 : 0));
  }
  std::replace(layers.begin(), layers.end(), int64_t{-1}, last + 1);
  return layers;
}

}  // namespace tessera::models
