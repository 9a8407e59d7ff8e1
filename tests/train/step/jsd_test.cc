// Training on views of images: the same on a mesh and in micro-batches as on one device, and what a recipe can get wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "train/json_lines.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;

const std::string kSplit =
    "data.pp=decode | random_crop(8) | flip_lr | split(3) | auto_augment(augmix-m5-w3) | value_range(-1, 1)";

std::vector<std::string> overrides(const std::vector<std::string>& more) {
  std::vector<std::string> all = {
      "total=2 steps",           "log=1 steps", "eval={}", "data.batch=16", "optimizer.lr=constant(3e-3)", kSplit,
      "objective={name=\"jsd\"}"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<nlohmann::json> run(const std::string& workdir, int64_t devices, const std::vector<std::string>& more) {
  TrainOptions options = testing::small_run().options(workdir);
  options.device.devices = devices;
  train(testing::small_run().section(overrides(more)), options);
  return testing::json_lines(options.workdir + "/metrics.jsonl");
}

TEST(Jsd, OnAMeshInMicroBatchesAsOnOneDevice) {
  const auto one = run("jsd_one", 1, {}), mesh = run("jsd_mesh", 4, {"mesh=replica=2, fsdp=2", "accumulate=2"});
  ASSERT_EQ(mesh.size(), 2u);
  EXPECT_EQ(one[1]["examples_seen"], 32);
  for (size_t i = 0; i < one.size(); ++i) {
    for (const char* key : {"training_loss", "training_prec@1", "l2_grads", "l2_params"}) {
      const double want = one[i][key];
      EXPECT_NEAR(mesh[i][key].get<double>(), want, 1e-5 * std::abs(want)) << key << " of step " << i + 1;
    }
  }
}

std::string failure(const std::vector<std::string>& more) {
  try {
    recipe::read_recipe(testing::small_run().section(overrides(more)));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Jsd, MistakesNameTheirKey) {
  EXPECT_THAT(failure({"data.pp=decode | resize(8) | value_range(-1, 1)"}),
              HasSubstr("`objective.name` is jsd, which compares views of an image, and data.pp makes one"));
  EXPECT_THAT(failure({"data.mixup={mixup=0.5}"}), HasSubstr("`data.mixup` would mix views of different images"));
  const std::string data = fmt::format("data={{source=\"folder({})\", pp=\"decode | central_crop(8) | value_range(-1, 1)\"}}",
                                       testing::small_run().path("val"));
  EXPECT_THAT(failure({"eval.val={type=\"mean\", " + data + "}"}), HasSubstr("the objective compares views of an image"));
  EXPECT_THAT(failure({"objective.alpha=-1"}), HasSubstr("`objective.alpha` must be at least 0"));
  EXPECT_THAT(failure({"objective.label_smoothing=1"}), HasSubstr("`objective.label_smoothing`"));
}

}  // namespace
}  // namespace tessera::train
