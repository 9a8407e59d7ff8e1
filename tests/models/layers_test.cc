// Layers for layer decay, as timm's group_matcher orders them (tools/references/models/layers.py).

#include <gtest/gtest.h>

#include <fstream>

#include "models/reference.h"
#include "support/paths.h"

namespace tessera::models {
namespace {

std::unique_ptr<Classifier> model_of(const std::string& name) {
  if (name != "vit") return reference_model(load_reference("model_" + name + ".safetensors"));
  const NamedModel vit = find_named("test_vit");
  return vit.family->from_timm(vit.architecture->args, {160, 160, 3, 1000}, name);
}

TEST(Layers, AreTimms) {
  std::ifstream file(testing::source_path("tests/references/layers.json"));
  const nlohmann::json known = nlohmann::json::parse(file);
  ASSERT_EQ(known.size(), 15u);
  for (const auto& [name, layers] : known.items()) {
    SCOPED_TRACE(name);
    const auto model = model_of(name);
    const TimmMap map = model->timm_map();
    const std::vector<int64_t> ours = parameter_layers(*model, parameters(*model));
    size_t compared = 0;
    for (size_t i = 0; i < map.entries.size(); ++i) {
      const TimmEntry& entry = map.entries[i];
      for (int64_t b = 0; b < std::max<int64_t>(entry.blocks, 1) && entry.spec.trained; ++b, ++compared) {
        EXPECT_EQ(ours[i] + b, layers.at(entry.timm_name(b)).at(0)) << entry.timm_name(b);
      }
    }
    EXPECT_EQ(compared, layers.size());
  }
}

}  // namespace
}  // namespace tessera::models
