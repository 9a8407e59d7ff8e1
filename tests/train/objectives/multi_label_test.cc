// Runs on images with several labels, and with class weights: what they learn, score and say, on any mesh, in micro-batches and
// over a stop.

#include "metrics/multi_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "inference/use_model.h"
#include "train/json_lines.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::json_lines;
using testing::small_run;

// A table beside the images of `train` or `val`: red ones are warm too, every fifth has no label.
std::string table(const std::string& split) {
  const std::string path = small_run().path(split + ".csv"), root = small_run().path(split);
  if (!fs::exists(path)) {
    std::vector<std::string> rows;
    for (const auto& file : fs::recursive_directory_iterator(root)) {
      if (!file.is_regular_file()) continue;
      const std::string colour = file.path().parent_path().filename(), name = file.path().filename();
      const bool none = std::stoi(name) % 5 == 4;
      rows.push_back(fmt::format("{}/{},{}\n", colour, name, none ? "" : colour == "red" ? "warm red" : colour));
    }
    std::ranges::sort(rows);
    std::string text = "image,tags\n";
    for (const std::string& row : rows) text += row;
    testing::spill(path, text);
  }
  return "csv(" + path + ", root=" + root + ", labels=tags)";
}

std::vector<std::string> tagged(std::vector<std::string> more = {}) {
  std::vector<std::string> overrides = {"data.source=" + table("train"), "eval.val.data.source=" + table("val"),
                                        "objective={name=\"bce\"}", "eval.val.type=multilabel"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

// Lines of metrics.jsonl.
std::vector<json> lines_of(const std::string& workdir) { return json_lines(small_run().path(workdir) + "/metrics.jsonl"); }

TEST(MultiLabelRuns, LearnScoreAndKeepTheBest) {
  const TrainResult result = small_run().train(
      "tags", tagged({"total=60 steps", "eval.val.every=20 steps", "checkpoint.best=val/mAP", "eval.val.predictions=true",
                      "eval.val.per_class=true", "early_stop=val/roc_auc, patience=50"}));
  EXPECT_EQ(result.exit, Exit::kDone);
  const json last = lines_of("tags").back();
  for (const char* score : {"val/mAP", "val/roc_auc", "val/f1_micro", "val/f1_macro"}) {
    EXPECT_GT(last.at(score), 0.5) << score;
    EXPECT_LE(last.at(score), 1) << score;
  }
  EXPECT_GT(last.at("val/mAP"), lines_of("tags").front().value("val/mAP", 0.0));
  EXPECT_GT(last.at("training_prec@1"), 0.4);
  // The file of predictions says what the scores were made of.
  const std::vector<json> said = json_lines(small_run().path("tags") + "/evals/val_000000060.jsonl");
  ASSERT_EQ(said.size(), 23u);
  const std::vector<std::string> classes = {"blue", "green", "red", "warm"};
  metrics::Features logits{4, {}};
  std::vector<uint8_t> multi_hot;
  double loss = 0;
  for (const json& one : said) {
    loss += one["loss"].get<double>() / 23;
    const auto names = one["labels"].get<std::vector<std::string>>();
    EXPECT_EQ(names.empty(),
              std::stoi(one["id"].get<std::string>().substr(one["id"].get<std::string>().find('/') + 1)) % 5 == 4);
    for (size_t c = 0; c < 4; ++c) {
      multi_hot.push_back(std::ranges::count(names, classes[c]) > 0);
      const double p = one["prob"][c];
      logits.values.push_back(static_cast<float>(std::log(p / (1 - p))));
    }
  }
  const metrics::MultiLabelScores scores(logits, multi_hot, 0.5);
  EXPECT_NEAR(last.at("val/loss"), loss, 1e-6);
  EXPECT_NEAR(last.at("val/mAP"), scores.mean_average_precision(), 1e-9);
  EXPECT_NEAR(last.at("val/roc_auc"), scores.auc(), 1e-9);
  EXPECT_NEAR(last.at("val/f1_micro"), scores.f1_micro(), 1e-9);
  EXPECT_NEAR(last.at("val/f1_macro"), scores.f1_macro(), 1e-9);
  const json table = json::parse(testing::slurp(small_run().path("tags") + "/evals/val_000000060.json"));
  ASSERT_EQ(table["classes"].size(), 4u);
  EXPECT_EQ(table["classes"][3]["class"], "warm");
  EXPECT_EQ(table["classes"][3]["examples"], scores.classes()[3].examples);
  EXPECT_NEAR(table["classes"][3]["average_precision"], scores.classes()[3].ranking.average_precision, 1e-9);
  // And the checkpoint what the run was trained on.
  const state::LoadedModel model = state::load_model(small_run().path("tags"));
  EXPECT_TRUE(model.multi_label);
  EXPECT_EQ(model.class_names, classes);
}

TEST(MultiLabelRuns, AnEvaluatorsTypeFollowsFromTheData) {
  config::Section section = config::parse_recipe(
      R"toml(total = "1 step"
model = { name = "vit", width = 16, depth = 1, heads = 2, patch = 4 }
objective = "bce"
optimizer = { name = "adamw", lr = 1e-3 }
data = { source = ")toml" +
      table("train") + R"toml(", batch = 4, pp = "decode | central_crop(8) | value_range(-1, 1)" }
[eval.val]
data = { source = ")toml" +
      table("val") + R"toml(", pp = "decode | central_crop(8) | value_range(-1, 1)" })toml");
  const recipe::Recipe recipe = recipe::read_recipe(section);
  EXPECT_EQ(recipe.evals[0].options.type, "multilabel");
  EXPECT_THAT(recipe.text, HasSubstr("type = \"multilabel\""));
  EXPECT_THAT(recipe.text, HasSubstr("label_smoothing = 0.0"));
}

TEST(MultiLabelRuns, MixedUseIsNamed) {
  const auto failure = [](const std::vector<std::string>& overrides) {
    return small_run().failure("mistake", overrides, Exit::kUsage);
  };
  EXPECT_THAT(failure(tagged({"objective=softmax"})), HasSubstr("is softmax, which takes one label an image"));
  EXPECT_THAT(failure(tagged({"eval.val.type=classification"})), HasSubstr("is classification, which takes one label"));
  EXPECT_THAT(failure({"eval.val.type=multilabel"}), HasSubstr("is multilabel, which takes several labels an image"));
  EXPECT_THAT(failure(tagged({"eval.val.type=knn", "eval.val.train={source=\"" + table("train") +
                                                       "\", pp=\"decode | central_crop(8) | value_range(-1, 1)\"}"})),
              HasSubstr("is knn, which takes one label"));
  EXPECT_THAT(failure({"objective=bce", "eval.val.type=multilabel", "eval.val.data.source=" + table("val")}),
              HasSubstr("has several labels an image, and training's data has one"));
  EXPECT_THAT(failure(tagged({"eval.val.type=classification", "eval.val.data.source=folder(" + small_run().path("val") + ")"})),
              HasSubstr("has one label an image, and training's data has any number"));
  EXPECT_THAT(failure(tagged({"data.shuffle=balanced"})), HasSubstr("its images may have several"));
  EXPECT_THROW(recipe::read_recipe(small_run().section(tagged({"data.shuffle=balanced"}))), Error) << "before it compiles";
  EXPECT_THAT(failure(tagged({"eval.val.threshold=1.5"})), HasSubstr("`eval.val.threshold` must lie between 0 and 1"));
}

constexpr const char* kMixup = "data.mixup={mixup=0.8, cutmix=1.0, mode=\"elem\"}";

// As if it never stopped: the run from its checkpoint of step 8, copied to a directory of its own.
TEST(MultiLabelRuns, GoOnBitForBit) {
  const std::vector<std::string> overrides = tagged({kMixup, "checkpoint.keep=9", "objective.pos_weight=balanced"});
  small_run().train("tags-whole", overrides);
  fs::create_directories(small_run().path("tags-again") + "/checkpoints");
  fs::copy(small_run().step_of("tags-whole", 8), small_run().step_of("tags-again", 8), fs::copy_options::recursive);
  small_run().train("tags-again", overrides);
  EXPECT_EQ(small_run().weights_of("tags-again", 12), small_run().weights_of("tags-whole", 12));
}

// The same trajectory on other devices and in micro-batches.
void expect_same(const std::string& name, int64_t devices, const std::string& mesh, std::vector<std::string> overrides,
                 const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), {"data.batch=24", "eval.val.batch=8", "log=1 steps"});
  small_run().train(name + "-one", overrides);
  overrides.insert(overrides.end(), more.begin(), more.end());
  overrides.push_back("mesh=" + mesh);
  TrainOptions options = small_run().options(name);
  options.device.devices = devices;
  train(small_run().section(overrides), options);
  const auto wanted = lines_of(name + "-one"), lines = lines_of(name);
  ASSERT_EQ(lines.size(), wanted.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* key : {"training_loss", "l2_grads", "l2_params", "val/loss", "val/mAP"}) {
      if (!wanted[i].contains(key)) continue;
      EXPECT_NEAR(lines[i].at(key), wanted[i].at(key), 1e-5 * std::abs(wanted[i].at(key).get<double>())) << key << ", " << i;
    }
  }
}

TEST(MultiLabelRuns, AreTheSameOnAMesh) {
  expect_same("tags-mesh", 4, "replica=2, fsdp=2", tagged({kMixup}), {"accumulate=2"});
}

// The mean is weighted over the whole batch, whoever holds its rows.
TEST(ClassWeightRuns, AreTheSameOnAMesh) {
  const std::vector<std::string> weights = {"objective.class_weights=[0.2, 1, 5]"};
  expect_same("weights-mesh", 4, "replica=2, fsdp=2", weights, {});
  expect_same("weights-parts", 2, "fsdp=2", weights, {"accumulate=3"});
  std::vector<std::string> mixed = weights;
  mixed.push_back(kMixup);
  expect_same("weights-mixed", 2, "fsdp=2", mixed, {"accumulate=2"});
  const double plain = lines_of("weights-mesh-one")[0].at("training_loss");
  small_run().train("weights-none", {"data.batch=24", "eval.val.batch=8", "log=1 steps"});
  EXPECT_NE(lines_of("weights-none")[0].at("training_loss"), plain);
  // 20 images of each class.
  small_run().train("weights-balanced",
                    {"data.batch=24", "eval.val.batch=8", "log=1 steps", "objective.class_weights=balanced"});
  EXPECT_NEAR(lines_of("weights-balanced")[5].at("training_loss"),
              lines_of("weights-none")[5].at("training_loss").get<double>(), 1e-5);
}

// `mean` is the weighted mean of training's loss: of weights that are all 3, the plain one.
TEST(ClassWeightRuns, TheMeanEvaluatorWeighsToo) {
  const auto loss = [](const std::string& name, const std::string& weights) {
    small_run().train(
        name, {"eval.val.every=12 steps", "eval.val.type=mean", "eval.val.batch=8", "objective.class_weights=" + weights});
    return lines_of(name).back().at("val/loss").get<double>();
  };
  const double plain = loss("mean-ones", "[1, 1, 1]");
  EXPECT_NEAR(loss("mean-threes", "[3, 3, 3]"), plain, 1e-5);
}

TEST(MultiLabelRuns, BatchesOfSkippedUpdatesListTheLabels) {
  small_run().train("tags_skipped", tagged({"total=3 steps", "guard.max_skips=5",
                                            "optimizer.lr=step(1e25, gamma=1e-28, milestones=[2 steps])"}));
  const std::string path = small_run().path("tags_skipped") + "/bad_batches/step_000000001/batch.json";
  const json batch = json::parse(testing::slurp(path));
  ASSERT_EQ(batch["rows"].size(), 12u);
  for (const json& row : batch["rows"]) {
    const std::string id = row["id"], colour = id.substr(0, id.find('/'));
    json tags = json::array();
    if (std::stoi(id.substr(id.find('/') + 1)) % 5 != 4) tags = colour == "red" ? json{"red", "warm"} : json{colour};
    EXPECT_EQ(row["labels"], tags) << id;
    EXPECT_FALSE(row.contains("label"));
  }
}

}  // namespace
}  // namespace tessera::train
