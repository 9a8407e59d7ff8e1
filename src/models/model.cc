#include "models/model.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/pattern.h"
#include "base/text/text.h"
#include "ir/ops.h"
#include "ir/program/flops.h"

namespace tessera::models {

#define MODEL(object) extern const Family object;
#include "models/models.def"
#undef MODEL

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> kFamilies = {
#define MODEL(object) &object,
#include "models/models.def"
#undef MODEL
  };
  return kFamilies;
}

NamedModel find_named(std::string_view name) {
  for (const Family* family : families()) {
    for (const TimmArchitecture& architecture : family->architectures) {
      if (architecture.name == name) return {family, &architecture};
    }
  }
  return {};
}

std::vector<std::string> named_models() {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    for (const TimmArchitecture& architecture : family->architectures) names.push_back(architecture.name);
  }
  return names;
}

std::vector<NamedVariant> named_variants(const Family& family) {
  std::vector<NamedVariant> variants;
  for (const TimmArchitecture& architecture : family.architectures) {
    const InputShape input{architecture.image_size, architecture.image_size, 3, 1000};
    variants.push_back({architecture.name, [&family, &architecture, input] {
                          return family.from_timm(architecture.args, input, architecture.name);
                        }});
  }
  for (const auto& [name, options] : family.others) {
    const std::string recipe = fmt::format("model = {{ name = \"{}\", {} }}", family.name, options);
    const auto make = [recipe, place = std::string(name)] {
      config::Section section = config::parse_recipe(recipe, place);
      return make_model(section.section("model"), {224, 224, 3, 1000});
    };
    variants.push_back({name, make});
  }
  return variants;
}

namespace {

[[noreturn]] void fail_variant(const config::Section& section, const Family& family, const std::string& name,
                               const std::vector<std::string>& names) {
  const auto near = nearest_name(name, names);
  section.fail(
      "variant", fmt::format("can't be `{}`", name),
      fmt::format("{}`tessera models {}` lists them", near ? fmt::format("did you mean `{}`? ", *near) : "", family.name));
}

}  // namespace

std::string variant_args(config::Section& section, const Family& family) {
  if (!section.has("variant")) return "{}";
  const std::string name = section.text("variant", "");
  std::vector<std::string> names;
  for (const TimmArchitecture& architecture : family.architectures) {
    if (architecture.name == name) return architecture.args;
    names.push_back(architecture.name);
  }
  fail_variant(section, family, name, names);
}

std::string variant_options(config::Section& section, const Family& family) {
  const std::string name = section.text("variant", "");
  if (name.empty()) return {};  // as in a resolved recipe
  std::vector<std::string> names;
  for (const auto& [known, options] : family.others) {
    if (known == name) return options;
    names.push_back(known);
  }
  fail_variant(section, family, name, names);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Family* family : families()) names.push_back(family->name);
  return names;
}

std::unique_ptr<Model> make_model(config::Section section, const InputShape& data) {
  const std::string name = section.name();
  for (const Family* family : families()) {
    if (family->name == name) return family->make(std::move(section), data);
  }
  // timm's names and those of its pretrained weights ("resnet50.a1_in1k") are variants here.
  const NamedModel named = find_named(name.substr(0, name.find('.')));
  throw usage_error(fmt::format("there is no model `{}`", name), section.place("name"),
                    named.family
                        ? fmt::format("it is a variant: model = {{ name = \"{0}\", variant = \"{1}\" }}, and on a command line "
                                      "model.name={0} model.variant={1}",
                                      named.family->name, named.architecture->name)
                        : suggest_name(name, model_names()) + "  tessera models lists the named variants of all");
}

ir::Value blank_images(const InputShape& input, int64_t batch) {
  return ir::zeros({DType::kF32, {batch, input.height, input.width, input.channels}});
}

ir::Value Classifier::trace(const nn::Scope& scope) const { return logits(scope, blank_images(input())); }

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

ModelCost cost(const Model& model) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  graph.results = {model.trace(nn::Scope(store, {}))};
  ModelCost cost{0, ir::product_flops(graph)};
  for (const nn::ParamSpec& spec : store.specs()) cost.parameters += spec.trained ? element_count(spec.type.dims) : 0;
  return cost;
}

}  // namespace tessera::models
