// Rates of layer decay are timm's, for every parameter of every family (tools/references/models/layers.py).

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/model.h"
#include "optim/rules.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::train {
namespace {

using nlohmann::json;

const std::string kReferences = testing::source_path("tests/references/");

std::unique_ptr<models::Classifier> model_of(const std::string& name) {
  if (name == "vit") {
    const models::NamedModel vit = models::find_named("test_vit");
    return vit.family->from_timm(vit.architecture->args, {160, 160, 3, 1000}, name);
  }
  const json config = testing::read_references(kReferences + "model_" + name + ".safetensors").config;
  const auto family =
      std::ranges::find_if(models::families(), [&](const models::Family* f) { return f->name == config["family"]; });
  return (*family)->from_timm(config["args"].dump(), {config["input"][2], config["input"][3], 3, 10}, name);
}

TEST(LayerDecay, RatesAreTimms) {
  std::ifstream file(kReferences + "layers.json");
  const json known = json::parse(file);
  ASSERT_EQ(known.size(), 15u);
  for (const auto& [name, rates] : known.items()) {
    SCOPED_TRACE(name);
    const auto model = model_of(name);
    const std::vector<nn::ParamSpec> specs = models::parameters(*model);
    const std::vector<int64_t> layers = models::parameter_layers(*model, specs);
    optim::Params params;
    for (size_t i = 0; i < specs.size(); ++i) {
      params.push_back({specs[i].name, specs[i].type, specs[i].stacked, specs[i].trained, layers[i]});
    }
    const auto rules = optim::resolve_rules({.layer_decay = 0.75, .layer_decay_min = 0.1}, params);
    const std::vector<models::TimmEntry> entries = model->timm_map().entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      for (int64_t b = 0; b < std::max<int64_t>(entries[i].blocks, 1) && specs[i].trained; ++b) {
        const std::string timm = entries[i].timm_name(b);
        const double rate = rules[i].lr_mult * (rules[i].block_mult.empty() ? 1 : rules[i].block_mult[static_cast<size_t>(b)]);
        EXPECT_NEAR(rate, rates.at(timm).at(1).get<double>(), 1e-12) << timm;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::train
