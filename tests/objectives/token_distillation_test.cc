// Training with a distillation token against timm's TokenDistillationTask (tools/references/models/vit.py): the class head's
// logits, the loss, and the gradient of every parameter.

#include <gtest/gtest.h>

#include "models/reference.h"
#include "objectives/objective.h"

namespace tessera::objectives {
namespace {

TEST(TokenDistillation, LossAndGradientsAreTimms) {
  const models::Reference reference = models::load_reference("vit_token_distillation.safetensors");
  const nlohmann::json& config = reference.config;
  models::InputShape input;
  input.height = config["input"][2], input.width = config["input"][3];
  input.classes = reference.dims.at("logits").back();
  const auto model = models::family_of("vit").from_timm(config["args"].dump(), input, "reference");
  config::Section recipe = config::parse_recipe(
      "objective = { name = \"distillation\", teacher = \"given\", alpha = 0.7, temperature = 2.0 }", "test");
  const auto objective = make_objective(recipe.section("objective"), {input.classes, {}});

  const auto answer = [&](const nn::Scope& scope, ir::Value images) {
    const auto labels = config["labels"].get<std::vector<float>>();
    const int64_t rows = images.dim(0);
    Batch batch;
    batch.images = images;
    batch.labels = ir::convert(ir::constant_f32({rows}, labels), DType::kI32);
    batch.teacher = ir::constant_f32({rows, input.classes}, testing::formula_array("teacher", rows * input.classes, 3));
    const ir::Values heads = objective->outputs(*model, scope, batch);
    EXPECT_EQ(heads.size(), 2u);
    return models::Answer{heads[0], ir::mean(objective->loss(heads, batch), {0})};
  };
  models::expect_run(*model, reference, {}, answer);
}

}  // namespace
}  // namespace tessera::objectives
