// Learning from a second model: it sees the student's images through its own normalisation, on any mesh, is not saved, and what
// a recipe can get wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "train/json_lines.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;

// A short run whose model is the teacher; it sees pixels in [-1, 1].
const std::string& teacher() {
  static const std::string workdir = [] {
    testing::small_run().train("teacher", {"total=12 steps", "optimizer.lr=constant(0.01)", "eval.val.every=100 %"});
    return testing::small_run().path("teacher");
  }();
  return workdir;
}

std::vector<std::string> overrides(const std::vector<std::string>& more) {
  std::vector<std::string> all = {"total=2 steps",
                                  "log=1 steps",
                                  "eval={}",
                                  "data.batch=16",
                                  "optimizer.lr=constant(3e-3)",
                                  fmt::format("objective={{name=\"distillation\", teacher=\"{}\"}}", teacher())};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<nlohmann::json> run(const std::string& workdir, int64_t devices, const std::vector<std::string>& more) {
  TrainOptions options = testing::small_run().options(workdir);
  options.device.devices = devices;
  train(testing::small_run().section(overrides(more)), options);
  return testing::json_lines(options.workdir + "/metrics.jsonl");
}

// Its own teacher has nothing to teach it: both see the same augmented images with the same weights.
TEST(Distillation, OfTheSameModelIsNothing) {
  const auto lines = run("same", 1, {"objective.alpha=1", "objective.temperature=2", "model_init.from=" + teacher()});
  EXPECT_NEAR(lines[0]["training_distillation"].get<double>(), 0, 1e-5);
  EXPECT_EQ(lines[0]["training_loss"], lines[0]["training_distillation"]);
}

// With a head of zeros a student's first loss is that of the teacher's answers alone: they don't depend on what range the
// student sees pixels in.
TEST(Distillation, TheTeacherSeesImagesInItsOwnRange) {
  const std::string zeros = "model.head_init=zeros";
  const auto own = run("own_range", 1, {zeros});
  const auto other = run("other_range", 1, {zeros, "data.pp=decode | random_crop(8) | flip_lr | value_range(0, 3)"});
  const double want = own[0]["training_distillation"];
  EXPECT_GT(want, 1e-3);
  EXPECT_NEAR(other[0]["training_distillation"].get<double>(), want, 1e-5 * want);
  EXPECT_NEAR(own[0]["training_loss"].get<double>(), 0.5 * want + 0.5 * std::log(3.0), 1e-5);
}

TEST(Distillation, OnAMeshAsOnOneDeviceAndTheTeacherIsNotSaved) {
  const auto one = run("one_device", 1, {"objective.kind=hard"});
  const auto mesh = run("mesh", 4, {"objective.kind=hard", "mesh=replica=2, fsdp=2", "accumulate=2"});
  ASSERT_EQ(mesh.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    for (const char* key : {"training_loss", "training_distillation", "l2_grads", "l2_params"}) {
      const double want = one[i][key];
      EXPECT_NEAR(mesh[i][key].get<double>(), want, 1e-5 * std::abs(want)) << key << " of step " << i + 1;
    }
  }
  const auto names = [](const std::string& workdir, int step) {
    const std::string path = fmt::format("{}/checkpoints/step_{:09}", testing::small_run().path(workdir), step);
    std::vector<std::string> found;
    for (const auto& [name, array] : checkpoint::load(path).arrays) found.push_back(name);
    return found;
  };
  EXPECT_EQ(names("one_device", 2), names("teacher", 12));
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

TEST(Distillation, MistakesNameTheirKey) {
  EXPECT_THAT(failure({"objective={name=\"distillation\"}"}), HasSubstr("objective.teacher"));
  EXPECT_THAT(failure({"objective.teacher=nowhere"}), HasSubstr("`nowhere` does not exist"));
  EXPECT_THAT(failure({"objective.teacher=nowhere"}), HasSubstr("objective.teacher"));
  EXPECT_THAT(failure({"objective.weights=average"}), HasSubstr("kept no average"));
  EXPECT_THAT(failure({"objective.kind=loud"}), HasSubstr("`objective.kind` is \"loud\""));
  EXPECT_THAT(failure({"objective.temperature=0"}), HasSubstr("`objective.temperature` must be above 0"));
  EXPECT_THAT(failure({"objective.alpha=1.5"}), HasSubstr("`objective.alpha` must lie in [0, 1]"));
  EXPECT_THAT(failure({"data.pp=decode | resize(12) | value_range(-1, 1)"}),
              HasSubstr("`objective.teacher` takes images of 8 x 8, and data.pp makes 12 x 12"));
  EXPECT_THAT(failure({"data.source=fake(images=32, classes=4)", "data.pp=decode | resize(8) | value_range(-1, 1)"}),
              HasSubstr("`objective.teacher` tells 3 classes apart, and the data has 4"));
}

}  // namespace
}  // namespace tessera::train
