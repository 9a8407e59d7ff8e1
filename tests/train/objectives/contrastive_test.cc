// Contrastive training: the same on a mesh as on one device, resumable, and what a recipe can get wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "state/model_source.h"
#include "train/json_lines.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;

const testing::TempDir& folder() {
  static const testing::TempDir dir;
  return dir;
}

config::Section recipe(const std::vector<std::string>& overrides = {}) {
  const char* const text = R"toml(
total      = "3 steps"
log        = "1 steps"
data       = { source = "fake(images=32, classes=4, fill=noise, words=7)", batch = 16, pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30))" }
objective  = { name = "contrastive", loss = "siglip" }
optimizer  = { name = "sgd", lr = "constant(0.1)" }
[model]
name      = "two_tower"
image     = { width = 16, depth = 2, heads = 2, patch = 4, pool = "map" }
text      = { width = 8, depth = 2, heads = 2, mlp_dim = 16 }
bias_init = -2.71
)toml";
  return config::parse_recipe(text, "siglip.toml", overrides);
}

std::vector<nlohmann::json> run(const std::string& workdir, int64_t devices, const std::vector<std::string>& overrides = {}) {
  TrainOptions options = testing::small_run().options(workdir);
  options.workdir = folder() / workdir;
  options.device.devices = devices;
  train(recipe(overrides), options);
  return testing::json_lines(options.workdir + "/metrics.jsonl");
}

// Every image is compared with the texts of all devices.
TEST(Contrastive, OnAMeshAsOnOneDevice) {
  for (const std::string loss : {"siglip", "softmax"}) {
    const std::vector<std::string> overrides = {"objective.loss=" + loss};
    const auto one = run(loss + "_one", 1, overrides);
    ASSERT_EQ(one.size(), 3u);
    EXPECT_LT(one[2]["training_loss"], one[0]["training_loss"]);
    const auto mesh = run(loss + "_mesh", 8, {overrides[0], "mesh=replica=2, fsdp=4"});
    for (size_t i = 0; i < one.size(); ++i) {
      for (const char* key : {"training_loss", "l2_grads", "l2_params", "training_prec@1"}) {
        const double want = one[i][key];
        EXPECT_NEAR(mesh[i][key].get<double>(), want, 1e-5 * std::abs(want)) << loss << ", " << key << " of step " << i + 1;
      }
    }
  }
}

// Micro-batches are compared with each other too: less memory for the same loss and gradients.
TEST(Contrastive, InMicroBatchesAsAtOnce) {
  for (const std::string loss : {"siglip", "softmax"}) {
    const std::vector<std::string> overrides = {"objective.loss=" + loss};
    const auto at_once = run(loss + "_at_once", 1, overrides);
    const auto micro = run(loss + "_micro", 1, {overrides[0], "accumulate=4"});
    const auto mesh = run(loss + "_micro_mesh", 4, {overrides[0], "accumulate=2", "mesh=replica=2, fsdp=2"});
    for (size_t i = 0; i < at_once.size(); ++i) {
      for (const char* key : {"training_loss", "l2_grads", "l2_params", "training_prec@1"}) {
        const double want = at_once[i][key];
        EXPECT_NEAR(micro[i][key].get<double>(), want, 1e-5 * std::abs(want)) << loss << ", " << key << " of step " << i + 1;
        EXPECT_NEAR(mesh[i][key].get<double>(), want, 1e-5 * std::abs(want)) << loss << ", " << key << " of step " << i + 1;
      }
    }
  }
}

// A model without a name of its own is read back from the recipe that its checkpoint keeps.
TEST(Contrastive, ItsCheckpointIsAModel) {
  run("kept", 1);
  const state::LoadedModel model = state::load_model(folder() / "kept");
  EXPECT_EQ(model.model->describe(), recipe::read_recipe(recipe()).model->describe());
  EXPECT_EQ(model.arrays().size(), model.params.size());
}

std::string failure(const std::vector<std::string>& overrides) {
  try {
    recipe::read_recipe(recipe(overrides));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Contrastive, MistakesNameTheirKey) {
  const std::string chain = "decode | resize(8) | value_range(-1, 1)";
  EXPECT_THAT(failure({"data.pp=" + chain}), HasSubstr("`objective.tokens` names tokens, and the data has none"));
  EXPECT_THAT(failure({"data.mixup={mixup=0.5}"}), HasSubstr("mixes labels"));
  EXPECT_THAT(failure({"objective.loss=sigmoid"}), HasSubstr("`objective.loss` is \"sigmoid\""));
  EXPECT_THAT(failure({"model={name=\"vit\", width=16, depth=1, heads=2, patch=4}"}),
              HasSubstr("`model.name` does not compare images and texts"));
  EXPECT_THAT(failure({"objective={name=\"softmax\"}", "model.text.tokens=6", "model.text.vocabulary=30"}),
              HasSubstr("`model.name` is no classifier"));
}

TEST(Contrastive, MistakesOfTheModelNameTheirKey) {
  const std::string model = "model={name=\"two_tower\", image={width=16, depth=2, heads=2, patch=4}, text={variant=\"mu\"}}";
  EXPECT_THAT(failure({model}), HasSubstr("`model.bias_init` is not given, and the loss siglip needs a bias"));
  EXPECT_EQ(failure({model, "objective.loss=softmax"}), "no error");
  EXPECT_THAT(failure({"model.variant=siglip_b17_224"}), HasSubstr("did you mean `siglip_b16_224`?"));
  EXPECT_THAT(failure({"model.image.patch=3"}), HasSubstr("`model.image.patch` must divide the image size 8"));
  EXPECT_THAT(failure({"model.image.pool=none"}), HasSubstr("`model.image.pool` keeps every token"));
  EXPECT_THAT(failure({"model.image.classes=3"}), HasSubstr("`model.image.classes`"));
  EXPECT_THAT(failure({"model.text.pool=gap"}), HasSubstr("`model.text.pool` can't be `gap`"));
  EXPECT_THAT(failure({"model.text.heads=3"}), HasSubstr("`model.text.heads` must divide the width 8, and is 3"));
  EXPECT_THAT(failure({"model.text.variant=B/16"}), HasSubstr("`model.text.variant` `B/16` is of no known size"));
  EXPECT_THAT(failure({"model.text.vocabulary=31"}), HasSubstr("`model.text.vocabulary` is 31, and the data has 30"));
  EXPECT_THAT(failure({"model.text.dropout=1"}), HasSubstr("`model.text.dropout` must be in [0, 1)"));
  EXPECT_THAT(failure({"model.out_dim=12", "model.image_head=false"}), HasSubstr("`model.out_dim` is 12"));
  EXPECT_THAT(failure({"model.temperature_init=0"}), HasSubstr("`model.temperature_init` must be above 0"));
}

}  // namespace
}  // namespace tessera::train
