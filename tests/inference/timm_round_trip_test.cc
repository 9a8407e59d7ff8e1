// timm's directories of every family (tools/references/models/timm_local_dir.py): read, they give timm's logits; written again,
// they are what timm wrote; and what training leaves alone comes back bit for bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text/pattern.h"
#include "checkpoint/formats/safetensors.h"
#include "inference/timm_directory.h"
#include "inference/use_model.h"
#include "interop/timm_config.h"
#include "store/temp_dir.h"
#include "support/formula.h"
#include "support/paths.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

using nlohmann::json;
using testing::slurp;

const std::string kReferences = testing::source_path("tests/references/");

// A case of the script; the architecture that `tessera export` names; where it is trained here, the model as a recipe has it,
// beside timm's name, and what is frozen.
struct Case {
  std::string name, architecture, options = {}, freeze = {};
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

const json& directories() {
  static const json all = json::parse(slurp(kReferences + "timm_directories.json"));
  return all;
}

// The case's directory as timm wrote it.
void write_case(const json& of, const std::string& directory) {
  models::Arrays arrays;
  for (const auto& [name, dtype, dims] : of["tensors"].get<std::vector<std::tuple<std::string, std::string, Dims>>>()) {
    arrays[name] =
        dtype == "I64" ? models::array_i64(dims, {0}) : models::array_f32(dims, testing::formula_parameter(name, dims));
  }
  std::vector<checkpoint::TensorView> tensors;
  for (const auto& [name, array] : arrays) tensors.push_back({name, array.type, array.data});
  std::filesystem::create_directories(directory);
  checkpoint::write_safetensors(store::local_files(), directory + "/model.safetensors", tensors, {{"format", "pt"}});
  testing::spill(directory + "/config.json", of["config"].dump());
}

models::Arrays arrays_in(const std::string& directory) {
  const auto file = checkpoint::SafetensorsFile::open(directory + "/model.safetensors");
  models::Arrays arrays;
  for (const checkpoint::TensorView& tensor : file.tensors()) {
    arrays[tensor.name] = {tensor.type, {tensor.data.begin(), tensor.data.end()}};
  }
  return arrays;
}

// Our name of timm's array, but for the kind of weight.
std::string our_name(std::string timms) {
  std::ranges::replace(timms, '.', '/');
  return timms;
}

class TimmRoundTrip : public ::testing::TestWithParam<Case> {
 protected:
  TimmRoundTrip() { write_case(of_, timm_); }

  config::Section recipe(const std::string& from) const {
    const json& config = of_["config"];
    return config::parse_recipe(
        fmt::format(R"toml(
total      = "2 steps"
log        = "1 steps"
checkpoint = {{ every = "2 steps" }}
data       = {{ source = "folder({})", batch = 6, threads = 1, pp = "decode | resize({}) | value_range(-1, 1)" }}
model      = {{ name = "{}", variant = "{}"{} }}
model_init = {{ from = "{}" }}
objective  = {{ name = "softmax" }}
optimizer  = {{ name = "sgd", lr = "1e-2", freeze = ["{}"] }}
)toml",
                    testing::small_run().path("train"), config["pretrained_cfg"]["input_size"][1].get<int64_t>(), family(),
                    config["architecture"].get<std::string>(), GetParam().options, from, GetParam().freeze),
        "round_trip.toml");
  }
  // Of a recipe.
  std::string family() const { return models::find_named(of_["config"]["architecture"].get<std::string>()).family->name; }

  const json& of_ = directories().at(GetParam().name);
  testing::TempDir dir_;
  std::string timm_ = dir_ / "timm";
};

void expect_logits(const state::LoadedModel& model, const std::vector<float>& timms) {
  std::vector<float> logits;
  inference::predict(model, model.pp, {kReferences + "timm_local_dir/image.png"}, testing::small_run().options("").device,
                     [&](const inference::Prediction& prediction) { logits = prediction.logits; });
  ASSERT_EQ(logits.size(), timms.size());
  for (size_t i = 0; i < timms.size(); ++i) EXPECT_NEAR(logits[i], timms[i], 1e-4) << i;
}

// By value: what timm's says, ours says too, of the same model.
void expect_config(const std::string& text, const json& timms) {
  const json ours = json::parse(text);
  for (const char* key : {"num_classes", "num_features", "label_names"}) EXPECT_EQ(ours[key], timms[key]) << key;
  for (const auto& [key, value] : timms["model_args"].items()) {
    if (key == "global_pool" && !ours["model_args"].contains(key)) continue;  // of families that have no other
    EXPECT_EQ(ours["model_args"][key], value) << key;
  }
  const json &our_cfg = ours["pretrained_cfg"], &timms_cfg = timms["pretrained_cfg"];
  for (const char* key : {"input_size", "interpolation", "mean", "std", "num_classes", "first_conv", "classifier"}) {
    EXPECT_EQ(our_cfg[key], timms_cfg[key]) << key;
  }
  const interop::ModelConfig here = interop::parse_timm_config(text, "ours"),
                             there = interop::parse_timm_config(timms.dump(), "timm");
  EXPECT_EQ(here.model->timm_args(), there.model->timm_args());
  EXPECT_EQ(here.model->describe(), there.model->describe());
  EXPECT_EQ(timm_pp(*here.preprocessing), timm_pp(*there.preprocessing));
}

TEST_P(TimmRoundTrip, LogitsAndWhatIsWrittenAreTimms) {
  const state::LoadedModel model = state::load_model(timm_);
  expect_logits(model, of_["logits"]);
  EXPECT_TRUE(inference::write_timm_directory(model, dir_ / "ours").empty());
  EXPECT_TRUE(arrays_in(dir_ / "ours") == arrays_in(timm_));
  const std::string text = slurp(dir_ / "ours/config.json");
  EXPECT_EQ(json::parse(text)["architecture"], GetParam().architecture);
  expect_config(text, of_["config"]);
}

class TimmRoundTripTrained : public TimmRoundTrip {};

TEST_P(TimmRoundTripTrained, WhatIsFrozenComesBackBitForBit) {
  TrainOptions options = testing::small_run().options("");
  options.workdir = dir_ / "run";
  ASSERT_EQ(train(recipe(timm_), options).step, 2);
  const state::LoadedModel trained = state::load_model(options.workdir);
  inference::write_timm_directory(trained, dir_ / "ours");

  const Pattern frozen(GetParam().freeze);
  const models::Arrays before = arrays_in(timm_), after = arrays_in(dir_ / "ours");
  ASSERT_EQ(after.size(), before.size());
  size_t kept = 0, moved = 0;
  for (const auto& [name, array] : before) {
    const bool same = after.at(name) == array;
    if (frozen.matches(our_name(name))) {
      ++kept;
      EXPECT_TRUE(same) << name;
    } else {
      moved += same ? 0 : 1;
    }
  }
  EXPECT_GT(kept, 20u);
  EXPECT_GE(moved, 2u);

  std::vector<std::string> notes;
  const state::LoadedModel back =
      state::load_model(inference::write_imported(recipe::read_recipe(recipe(timm_)), dir_ / "ours", dir_ / "imported", notes));
  for (size_t i = 0; i < trained.params.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(back.params[i].data, trained.params[i].data)) << trained.layout.entries[i].name;
  }
}

const auto name_of = [](const auto& test) { return test.param.name; };

INSTANTIATE_TEST_SUITE_P(
    Families, TimmRoundTrip,
    ::testing::Values(Case{"vit", "vit_base_patch16_224"}, Case{"vit_distilled", "deit_base_distilled_patch16_224"},
                      Case{"vit_registers", "vit_base_patch16_224"}, Case{"vit_clip", "vit_base_patch16_clip_224"},
                      Case{"deit3", "vit_base_patch16_224"}, Case{"mixer", "mixer_s32_224"}, Case{"resmlp", "resmlp_12_224"},
                      Case{"convnext", "convnext_tiny"}, Case{"convnext_v2", "convnextv2_tiny"},
                      Case{"bit", "resnetv2_50x1_bit"}, Case{"resnet", "resnet50"}, Case{"resnet_basic", "resnet18"},
                      Case{"resnet_d", "resnet50"}, Case{"resnet_group", "resnet50"}),
    name_of);

const char kViT[] = ", patch = 4, width = 24, depth = 2, heads = 2, mlp_dim = 96";

// What compiles quickly; tools/references/models/check_families.py freezes parts of every family.
INSTANTIATE_TEST_SUITE_P(Families, TimmRoundTripTrained,
                         ::testing::Values(Case{"vit", "", kViT, "blocks/.*"}, Case{"vit_distilled", "", kViT, "blocks/.*"}),
                         name_of);

// The one whole directory among the references, with timm's own file of weights.
TEST(TimmDirectory, IsWrittenAsTimmWroteIt) {
  const testing::TempDir dir;
  inference::write_timm_directory(state::load_model(kReferences + "timm_local_dir"), dir / "ours");
  EXPECT_TRUE(arrays_in(dir / "ours") == arrays_in(kReferences + "timm_local_dir"));
  expect_config(slurp(dir / "ours/config.json"), json::parse(slurp(kReferences + "timm_local_dir/config.json")));
}

}  // namespace
}  // namespace tessera::train
