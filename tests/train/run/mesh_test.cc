// Runs on several devices: the same numbers as on one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "host/register.h"
#include "support/paths.h"
#include "train/json_lines.h"
#include "train/small_run.h"
#include "train/step/compile.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::small_run;

// Sizes that 8 divides, and every array of them split.
const std::vector<std::string> kOverrides = {
    "total=20 steps",
    "log=1 steps",
    "checkpoint.every=10 steps",
    "data.batch=32",
    "eval.val.batch=16",
    "model.width=32",
    "model.heads=4",
    "eval.val.every=20 steps",
    "sharding.rules=[\"opt/.*/(kernel|pos_embed) = fsdp(min_size=1)\", "  // NOLINT(bugprone-suspicious-missing-comma)
    "\"params/.*/(bias|scale|pos_embed) = fsdp(min_size=1)\"]"};

TrainResult run_on(const std::string& workdir, int64_t devices, const std::string& mesh, std::vector<std::string> more = {}) {
  std::vector<std::string> overrides = kOverrides;
  if (!mesh.empty()) overrides.push_back("mesh=" + mesh);
  overrides.insert(overrides.end(), more.begin(), more.end());
  TrainOptions options = small_run().options(workdir);
  options.device.devices = devices;
  return train(small_run().section(overrides), options);
}

std::vector<nlohmann::json> lines_of(const std::string& workdir) {
  return testing::json_lines(small_run().path(workdir) + "/metrics.jsonl");
}

void expect_same_trajectory(const std::string& workdir, const std::string& reference) {
  const auto lines = lines_of(workdir), wanted = lines_of(reference);
  ASSERT_EQ(lines.size(), 20u);
  ASSERT_EQ(wanted.size(), 20u);
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* key : {"training_loss", "l2_grads", "l2_params", "l2_updates", "val/loss"}) {
      if (!wanted[i].contains(key)) continue;
      const double want = wanted[i][key], got = lines[i][key];
      EXPECT_NEAR(got, want, 1e-5 * std::abs(want)) << workdir << ", " << key << " of step " << i + 1;
    }
  }
}

const std::string& on_one_device() {
  static const std::string name = [] {
    run_on("mesh-one", 1, "");
    return std::string("mesh-one");
  }();
  return name;
}

struct MeshCase {
  const char* name;
  int64_t devices;
  const char* mesh;
  std::vector<std::string> overrides;
};

class OnAMesh : public ::testing::TestWithParam<MeshCase> {};

TEST_P(OnAMesh, TwentyStepsAreThoseOfOneDevice) {
  const MeshCase& c = GetParam();
  const std::string workdir = std::string("mesh-") + c.name;
  EXPECT_EQ(run_on(workdir, c.devices, c.mesh, c.overrides).exit, Exit::kDone);
  expect_same_trajectory(workdir, on_one_device());
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, OnAMesh,
    ::testing::Values(MeshCase{"Replicas8", 8, "replica=8", {}}, MeshCase{"Fsdp8", 8, "fsdp=8", {}},
                      MeshCase{"Hybrid2x4", 8, "replica=2, fsdp=4", {}}, MeshCase{"Hybrid4x2", 8, "replica=4, fsdp=2", {}},
                      MeshCase{"Cube", 8, "replica=2, fsdp=2, tensor=2", {}}, MeshCase{"Two", 2, "fsdp=2", {}},
                      MeshCase{"Four", 4, "replica=-1, fsdp=2", {}}, MeshCase{"TensorFirst", 4, "tensor=2, fsdp=2", {}},
                      MeshCase{"OptimizerOnly", 8, "fsdp=8", {"sharding.preset=optimizer_only", "sharding.rules=[]"}},
                      MeshCase{"Replicated", 8, "fsdp=8", {"sharding.preset=replicated", "sharding.rules=[]"}},
                      MeshCase{"KeptGathered", 8, "fsdp=8", {"sharding.reshard=false"}},
                      MeshCase{"ReducedInF32", 8, "fsdp=8", {"sharding.reduce=f32"}},
                      MeshCase{"Accumulated", 8, "replica=2, fsdp=4", {"accumulate=4"}},
                      MeshCase{"AccumulatedCube", 8, "replica=2, fsdp=2, tensor=2", {"accumulate=4"}},
                      MeshCase{"AccumulatedOne", 1, "", {"accumulate=4"}},
                      MeshCase{"RematFull", 8, "replica=2, fsdp=4", {"model.remat=full"}},
                      MeshCase{"RematNone", 8, "replica=2, fsdp=4", {"model.remat=none"}},
                      MeshCase{"RematNamed", 8, "replica=2, fsdp=4", {"model.remat=save(qkv, fc1)"}}),
    [](const auto& mesh) { return mesh.param.name; });

// Wide enough for the host's kernels to multiply each device's rows (attention is theirs in every run here), some products by
// them and some not, in each way of keeping values and adding up.
TEST(Mesh, ProductsOfEachDevicesRowsAreThoseOfOneDevice) {
  const auto wide = [](std::vector<std::string> more) {
    more.insert(more.end(), {"model.width=128", "model.heads=4", "optimizer.lr=cosine(1e-3, warmup=4 steps)"});
    return more;
  };
  run_on("mesh-wide-one", 1, "", wide({}));
  struct Case {
    int64_t devices;
    const char *mesh, *name;
    std::vector<std::string> overrides;
  };
  for (const Case& c : {Case{2, "fsdp=2", "mesh-wide-fsdp", {}}, Case{4, "replica=2, fsdp=2", "mesh-wide-hybrid", {}},
                        Case{2, "fsdp=2", "mesh-wide-parts", {"accumulate=2", "model.remat=full"}},
                        Case{2, "replica=2", "mesh-wide-replicas", {"model.remat=none"}},
                        Case{2, "fsdp=2", "mesh-wide-gathered", {"sharding.reshard=false"}}}) {
    run_on(c.name, c.devices, c.mesh, wide(c.overrides));
    expect_same_trajectory(c.name, "mesh-wide-one");
  }
}

// Where the head sees the class token alone, the last block's rows are fewer than the others'.
TEST(Mesh, RowsOfTheClassTokenAreThoseOfOneDevice) {
  const auto seen = [](std::vector<std::string> more) {
    more.insert(more.end(), {"model.width=128", "model.heads=4", "model.pool=tok", "model.class_token=true", "model.remat=none",
                             "optimizer.lr=cosine(1e-3, warmup=4 steps)"});
    return more;
  };
  run_on("mesh-token-one", 1, "", seen({}));
  run_on("mesh-token-fsdp", 2, "fsdp=2", seen({}));
  run_on("mesh-token-hybrid", 4, "replica=2, fsdp=2", seen({"accumulate=2", "sharding.reshard=false"}));
  for (const char* name : {"mesh-token-fsdp", "mesh-token-hybrid"}) expect_same_trajectory(name, "mesh-token-one");
}

// The training step of a small model over virtual devices, with the calls of this host.
std::string step_text(const pjrt::Client& client, int64_t devices, const std::string& mesh) {
  const recipe::Recipe recipe = recipe::read_recipe(
      small_run().section({"model.width=128", "model.heads=4", "data.batch=32", "eval.val.batch=16", "mesh=" + mesh}), devices);
  ProgramOptions options;
  options.batch = recipe.batch;
  options.objective = recipe.objective;
  options.hardware.kernels = host::register_kernels(client);
  return train_program(*recipe.model, recipe::recipe_layout(recipe), *recipe.optimizer, options).text;
}

TEST(Mesh, StepsCallTheHostsKernelsWhereNoFeaturesAreSplit) {
  const auto client =
      pjrt::Client::create(pjrt::Plugin::load(testing::cpu_plugin_path()), {.cpu_device_count = 4, .create_options = {}});
  const host::Kernels kernels = host::register_kernels(*client);
  const std::string rows = step_text(*client, 4, "replica=2, fsdp=2"), features = step_text(*client, 4, "fsdp=2, tensor=2");
  ASSERT_TRUE(kernels.has(host::kAttention));
  for (const std::string target :
       {"tessera.self_attention", "tessera.self_attention_gradient", "tessera.dense", "tessera.dense_backward"})
    EXPECT_THAT(rows, HasSubstr("\"" + target + "\""));
  EXPECT_THAT(features, Not(HasSubstr("\"tessera.")));
}

// Rows are mixed over the devices' borders, and noise does not depend on who draws it.
TEST(Mesh, AugmentsAsOneDeviceDoes) {
  const std::string erase = "data.pp=\"decode | resize(8) | value_range(-1, 1) | random_erasing(0.5, mode=pixel, count=2)\"";
  const std::vector<std::string> timm = {"data.mixup={mixup=0.8, cutmix=1.0, mode=\"elem\"}", erase};
  const std::vector<std::string> big_vision = {"data.mixup={style=\"big_vision\", mixup=0.5}", "accumulate=2"};
  run_on("mesh-augment-one", 1, "", timm);
  run_on("mesh-augment", 8, "replica=2, fsdp=4", timm);
  expect_same_trajectory("mesh-augment", "mesh-augment-one");
  run_on("mesh-mixup-one", 1, "", big_vision);
  run_on("mesh-mixup", 4, "fsdp=4", big_vision);
  expect_same_trajectory("mesh-mixup", "mesh-mixup-one");
  EXPECT_NE(lines_of("mesh-mixup")[5]["training_loss"], lines_of(on_one_device())[5]["training_loss"]);
}

// Which rows are mixed, what is erased and what averages move by are the batch's, however many parts it is computed in. (Noise,
// dropout and drop path draw anew for each micro-batch.)
TEST(Mesh, AugmentsInMicroBatchesAsAtOnce) {
  const std::vector<std::string> at_once = {
      "data.mixup={mixup=0.8, cutmix=1.0, mode=\"elem\"}", "average={decay=0.8}",
      "data.pp=\"decode | resize(8) | value_range(-1, 1) | random_erasing(0.5, mode=rand, count=2)\""};
  std::vector<std::string> in_parts = at_once;
  in_parts.push_back("accumulate=4");
  run_on("mesh-at-once", 1, "", at_once);
  const double one = lines_of("mesh-at-once").back()["val_ema/loss"];
  for (const auto& [workdir, devices, mesh] :
       {std::tuple("mesh-parts-one", 1, ""), std::tuple("mesh-parts", 4, "replica=2, fsdp=2")}) {
    run_on(workdir, devices, mesh, in_parts);
    expect_same_trajectory(workdir, "mesh-at-once");
    EXPECT_NEAR(lines_of(workdir).back()["val_ema/loss"].get<double>(), one, 1e-5 * one) << workdir;
  }
}

// Random numbers belong to places of arrays, whoever holds them; micro-batches and averages are whole on every mesh.
TEST(Mesh, RandomLayersAndAveragesAreThoseOfOneDevice) {
  const std::vector<std::string> random = {
      "model.dropout=0.1",
      "model.drop_path=0.2",
      "accumulate=2",
      "average={decay=0.8}",
      "data.mixup={mixup=0.8, cutmix=1.0}",
      "data.pp=\"decode | random_crop(8) | value_range(-1, 1) | random_erasing(0.5, mode=pixel)\""};
  run_on("mesh-random-one", 1, "", random);
  run_on("mesh-random", 4, "replica=2, fsdp=2", random);
  expect_same_trajectory("mesh-random", "mesh-random-one");
  const double one = lines_of("mesh-random-one").back()["val_ema/loss"], four = lines_of("mesh-random").back()["val_ema/loss"];
  EXPECT_NEAR(four, one, 1e-5 * one);
}

// Slots of other shapes than their parameter, and norms of each block. eps is above the noise of gradients that are zero (of
// the keys' bias), which Adafactor would bring to the size of the others.
TEST(Mesh, FactoredMomentsFollowThoseOfOneDevice) {
  const std::vector<std::string> optimizer = {"optimizer.name=adafactor_bv", "optimizer.min_factored=8", "optimizer.eps=1e-10",
                                              "optimizer.clip_threshold=0.5"};
  run_on("mesh-factored-one", 1, "", optimizer);
  run_on("mesh-factored", 2, "fsdp=2", optimizer);
  expect_same_trajectory("mesh-factored", "mesh-factored-one");
}

// Trust ratios, norms of layers and products of whole matrices, of arrays that are split over every device.
TEST(Mesh, OptimizersThatSeeWholeArraysFollowThoseOfOneDevice) {
  for (const std::string name : {"lamb", "novograd", "muon"}) {
    std::vector<std::string> optimizer = {"optimizer.name=" + name};
    if (name == "muon") optimizer.push_back("optimizer.iterate=f32");
    run_on("mesh-" + name + "-one", 1, "", optimizer);
    run_on("mesh-" + name, 8, "fsdp=8", optimizer);
    expect_same_trajectory("mesh-" + name, "mesh-" + name + "-one");
  }
}

// A model whose norms look at the whole batch: their statistics, and what they keep of them, are those of all devices. Its
// convolutions are in groups, which each device computes for its own rows.
TEST(Mesh, BatchNormSeesTheWholeBatch) {
  const std::vector<std::string> resnet = {
      "model={ name = \"resnet\", dims = [4, 4, 4, 4], groups = 2, depths = [1, 2, 1, 1] }", "total=4 steps",
      "checkpoint.every=4 steps", "eval.val.every=4 steps"};
  run_on("mesh-norm-one", 1, "", resnet);
  run_on("mesh-norm", 2, "replica=2", resnet);
  const auto lines = lines_of("mesh-norm"), wanted = lines_of("mesh-norm-one");
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const auto& [key, want] : wanted[i].items()) {
      if (key != "training_loss" && key != "val/loss" && key != "l2_grads") continue;
      EXPECT_NEAR(lines[i][key].get<double>(), want.get<double>(), 1e-4 * want.get<double>()) << key << " of step " << i + 1;
    }
  }
  EXPECT_TRUE(wanted[3].contains("val/loss"));
}

std::string weights_of(const std::string& workdir) {
  return testing::slurp(small_run().path(workdir) + "/checkpoints/step_000000020/state.safetensors");
}

TEST(Mesh, ResumesBitForBitOnTheSameMesh) {
  const std::string mesh = "replica=2, fsdp=4";
  run_on("mesh-whole", 8, mesh);
  run_on("mesh-resumed", 8, mesh);
  std::filesystem::remove_all(small_run().path("mesh-resumed") + "/checkpoints/step_000000020");
  EXPECT_EQ(run_on("mesh-resumed", 8, mesh).exit, Exit::kDone);
  EXPECT_EQ(weights_of("mesh-resumed"), weights_of("mesh-whole"));
}

TEST(Mesh, ACheckpointContinuesOnAnyOther) {
  struct Other {
    int64_t devices;
    const char *mesh, *name;
  };
  for (const Other& other :
       {Other{8, "fsdp=8", "mesh-to-fsdp"}, Other{8, "replica=8", "mesh-to-replicas"}, Other{1, "", "mesh-to-one"}}) {
    run_on(other.name, 8, "replica=2, fsdp=4");
    std::filesystem::remove_all(small_run().path(other.name) + "/checkpoints/step_000000020");
    EXPECT_EQ(run_on(other.name, other.devices, other.mesh).exit, Exit::kDone);
    expect_same_trajectory(other.name, on_one_device());
  }
}

// Each device's part of the arguments of the training step.
int64_t argument_bytes(int64_t devices, const std::string& mesh) {
  const std::vector<std::string> big = {"model.width=384", "model.heads=6",     "model.depth=12",
                                        "data.batch=32",   "eval.val.batch=16", "mesh=" + mesh};
  const recipe::Recipe recipe = recipe::read_recipe(small_run().section(big), devices);
  const state::StateLayout layout = recipe::recipe_layout(recipe);
  const auto client =
      pjrt::Client::create(pjrt::Plugin::load(testing::cpu_plugin_path()), {.cpu_device_count = devices, .create_options = {}});
  ProgramOptions options;
  options.batch = recipe.batch;
  options.objective = recipe.objective;
  const Program program = train_program(*recipe.model, layout, *recipe.optimizer, options);
  return compile(*client, program, pjrt::ExecutableCache(""), {}).executable.memory().arguments;
}

TEST(Mesh, FullyShardedArgumentsAreAnEighth) {
  const double one = static_cast<double>(argument_bytes(1, "")), eight = static_cast<double>(argument_bytes(8, "fsdp=8"));
  EXPECT_NEAR(eight / one, 1.0 / 8, 0.03 / 8);
}

std::string failure(int64_t devices, const std::string& mesh, const std::vector<std::string>& more) {
  try {
    run_on("mesh-wrong", devices, mesh, more);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Mesh, WhatDoesNotDivideIsExplained) {
  EXPECT_THAT(failure(8, "replica=3, fsdp=2", {}), HasSubstr("does not fit 8 devices"));
  EXPECT_THAT(failure(8, "fsdp=8", {"data.batch=12"}), HasSubstr("take 8 or 16"));
  EXPECT_THAT(failure(8, "fsdp=8", {"accumulate=8"}), HasSubstr("8 micro-batches"));
  EXPECT_THAT(failure(8, "fsdp=8", {"eval.val.batch=4"}), HasSubstr("take 8, or a smaller mesh"));
  EXPECT_THAT(failure(4, "tensor=4", {"sharding.rules=[\"params/head/kernel = spec(_, tensor)\"]"}),
              HasSubstr("dimension 1 is 3"));
}

}  // namespace
}  // namespace tessera::train
