// The event files of whole runs, as TensorBoard's own reader finds them.

#include "support/tensorboard.h"

#ifdef TESSERA_HAS_TENSORBOARD

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/text/text.h"
#include "image/codec/decode.h"
#include "train/json_lines.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::small_run;

std::string tb(const std::string& workdir) { return small_run().path(workdir) + "/tb"; }

// A run never interrupted, with every checkpoint kept.
const std::string& whole() {
  static const std::string name = [] {
    EXPECT_EQ(small_run().train("board", {"checkpoint.every=1 steps", "checkpoint.keep=99", "log=1 steps"}).exit, Exit::kDone);
    return std::string("board");
  }();
  return name;
}

// metrics.jsonl as curves: {tag: [[step, value], …]}.
json curves_of_metrics(const std::string& workdir) {
  json curves = json::object();
  for (const json& line : testing::json_lines(small_run().path(workdir) + "/metrics.jsonl")) {
    for (const auto& [key, value] : line.items()) {
      if (key != "step" && value.is_number()) curves[key].push_back({line["step"], value.get<float>()});
    }
  }
  return curves;
}

// A run that was killed after step k: what it has of later steps, and its later checkpoints are not there.
std::string killed_after(int64_t k) {
  std::string name = fmt::format("board_from_{}", k);
  fs::remove_all(small_run().path(name));
  fs::copy(small_run().path(whole()), small_run().path(name), fs::copy_options::recursive);
  for (int64_t later = k + 1; later <= 12; ++later) fs::remove_all(small_run().step_of(name, later));
  return name;
}

TEST(TensorBoard, HasEveryFigureOfEveryLine) {
  const json curves = testing::read_events(tb(whole()))["scalars"], expected = curves_of_metrics(whole());
  EXPECT_EQ(curves.size(), expected.size());
  for (const auto& [tag, points] : expected.items()) {
    ASSERT_TRUE(curves.contains(tag)) << tag;
    EXPECT_EQ(curves[tag], points) << tag;
  }
}

TEST(TensorBoard, CurvesOfARunThatWasKilledAreThoseOfOneThatWasNot) {
  const json expected = testing::timeless_curves(tb(whole()));
  EXPECT_EQ(expected["training_loss"].size(), 12u);
  for (const int64_t k : {1, 3, 7, 11}) {
    const std::string name = killed_after(k);
    small_run().train(name, {"log=1 steps"});
    EXPECT_EQ(testing::timeless_curves(tb(name)), expected) << k;
    EXPECT_EQ(testing::read_events(tb(name))["scalars"], curves_of_metrics(name)) << k;
  }
}

// Killed before the events of the last steps reached the disk, and with no event files at all.
TEST(TensorBoard, WhatIsMissingIsWrittenAgain) {
  const json expected = testing::timeless_curves(tb(whole()));
  for (const bool all : {false, true}) {
    const std::string name = killed_after(9);
    for (const fs::directory_entry& file : fs::directory_iterator(tb(name))) {
      all ? void(fs::remove(file)) : fs::resize_file(file, fs::file_size(file) / 2);
    }
    small_run().train(name, {"log=1 steps"});
    EXPECT_EQ(testing::timeless_curves(tb(name)), expected) << all;
    EXPECT_EQ(testing::read_events(tb(name))["scalars"], curves_of_metrics(name)) << all;
  }
}

TEST(TensorBoard, HasTheRecipeTheModelAndWarnings) {
  const json texts = testing::read_events(tb(whole()))["texts"];
  ASSERT_TRUE(texts.contains("recipe") && texts.contains("model"));
  EXPECT_EQ(texts["recipe"].size(), 1u);
  EXPECT_EQ(texts["recipe"][0][0], 0);
  std::string recipe;
  for (const std::string& line : split(testing::slurp(small_run().path(whole()) + "/recipe.toml"), '\n'))
    recipe += "    " + line + "\n";
  EXPECT_EQ(texts["recipe"][0][1], recipe);
  EXPECT_NE(texts["model"][0][1].get<std::string>().find("blocks/attn/qkv/kernel"), std::string::npos) << texts["model"][0][1];
}

TEST(TensorBoard, HasWarningsAsTheConsoleTellsThem) {
  // A loss that jumps is one: the rate does at step 40.
  ::testing::internal::CaptureStderr();
  small_run().train("board_warned", {"total=60 steps", "log=1 step", "eval.val.every=60 steps", "optimizer.clip=none",
                                     "optimizer.lr=step(1e-3, gamma=1e4, milestones=[40 steps])"});
  const std::string told = ::testing::internal::GetCapturedStderr();
  const json warnings = testing::read_events(tb("board_warned"))["texts"]["warnings"];
  bool jumped = false;  // a machine that is busy with other work may slow down, and say so
  for (const json& warning : warnings) {
    const std::string text = warning[1];
    EXPECT_NE(told.find("warning: " + text), std::string::npos) << text << told;
    if (!text.starts_with("the training loss jumped to ")) continue;
    jumped = true;
    EXPECT_GT(warning[0], 40);
  }
  EXPECT_TRUE(jumped) << told;
}

TEST(TensorBoard, HasTheKeysOfTheRecipeAsHyperParameters) {
  const std::string name = killed_after(5);
  small_run().train(name, {"log=1 steps", "data.threads=1"});
  const json hparams = testing::read_events(tb(name))["hparams"];
  EXPECT_EQ(hparams["start"]["optimizer.weight_decay"], 0.05);
  EXPECT_EQ(hparams["start"]["optimizer.name"], "adamw");
  EXPECT_EQ(hparams["start"]["model.pool"], "gap");
  EXPECT_EQ(hparams["start"]["eval_at_start"], false);
  EXPECT_EQ(hparams["start"]["data.threads"], 1) << "of the last start";
  EXPECT_EQ(hparams["end"], 1) << "success";
}

TEST(TensorBoard, ComparesRunsByTheKeysInWhichTheyDiffer) {
  small_run().train("compared/a", {"total=6 steps"});
  small_run().train("compared/b", {"total=6 steps", "optimizer.weight_decay=0.2"});
  const json shown = testing::read_hparams(small_run().path("compared"));
  EXPECT_EQ(shown["differing"], json({"optimizer.weight_decay"}));
  EXPECT_EQ(shown["runs"]["a/tb"]["hparams"]["optimizer.weight_decay"], 0.05);
  EXPECT_EQ(shown["runs"]["b/tb"]["hparams"]["optimizer.weight_decay"], 0.2);
  EXPECT_TRUE(shown["runs"]["a/tb"]["metrics"].contains("val/prec@1"));
}

TEST(TensorBoard, HasTheFirstBatchAsTheModelSeesIt) {
  const json images = testing::read_events(tb(whole()))["images"]["first_batch"];
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0][0], 0);
  ASSERT_EQ(images[0][1].size(), 12u) << "the batch";
  EXPECT_EQ(images[0][1][0].size(), 8u * 8 * 3);
  // The same rows with mixing and erasing on the device: where nothing is mixed in, they are the same pixels.
  small_run().train("board_mixed",
                    {"total=6 steps", "data.mixup={mixup=0.8}", "monitor.images=5",
                     "data.pp=decode | random_crop(8) | flip_lr | value_range(-1, 1) | random_erasing(1, mode=const)"});
  const json mixed = testing::read_events(tb("board_mixed"))["images"]["first_batch"];
  ASSERT_EQ(mixed[0][1].size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    int grey = 0, near = 0;
    for (size_t p = 0; p < 192; ++p) {
      const int value = mixed[0][1][i][p], before = images[0][1][i][p];
      grey += value == 127 || value == 128;  // 0 after value_range(-1, 1)
      near += std::abs(value - before) <= 40;
    }
    EXPECT_GE(grey, 3) << "erased";
    EXPECT_GE(near, 30) << "a mixture of the same picture";
  }
}

// A node of a layer stands under its name, and every input is a node.
TEST(TensorBoard, HasTheModelsGraph) {
  const json graph = testing::read_events(tb(whole()))["graph"];
  size_t parameters = 0, scans = 0;
  for (const auto& [name, node] : graph.items()) {
    for (std::string input : node["inputs"]) {
      if (const size_t colon = input.find(':'); colon != std::string::npos) input.resize(colon);
      EXPECT_TRUE(graph.contains(input)) << name << " <- " << input;
    }
    parameters += node["op"] == "parameter";
    scans += node["op"] == "scan";
  }
  const recipe::Recipe recipe = recipe::read_recipe(small_run().section());
  EXPECT_EQ(parameters, recipe.specs.size());
  EXPECT_EQ(scans, 1u);
  ASSERT_TRUE(graph.contains(recipe.specs[0].name)) << recipe.specs[0].name;
  EXPECT_EQ(graph[recipe.specs[0].name]["shape"], json(recipe.specs[0].type.dims));
}

// The sums of squares of all histograms of a kind are what the step itself measures as norms; and the run is not changed.
TEST(TensorBoard, HistogramsAreOfTheStepItself) {
  small_run().train("board_histograms", {"log=1 steps", "monitor.histograms=4 steps"});
  EXPECT_EQ(small_run().weights_of("board_histograms", 12), small_run().weights_of(whole(), 12));
  const json events = testing::read_events(tb("board_histograms"));
  std::map<std::pair<std::string, int64_t>, double> squares;
  std::set<int64_t> steps;
  for (const auto& [tag, points] : events["histograms"].items()) {
    for (const json& point : points) {
      const json& h = point[1];
      const std::string kind = tag.substr(0, tag.find('/'));
      const int64_t step = point[0];
      steps.insert(step);
      squares[{kind, step}] += h["sum_squares"].get<double>();
      double all = 0;
      for (const double count : h["counts"]) {
        EXPECT_GE(count, 0);
        all += count;
      }
      EXPECT_EQ(all, h["num"].get<double>()) << tag;
      EXPECT_EQ(h["counts"].size(), 30u);
      EXPECT_DOUBLE_EQ(h["limits"].back(), h["max"]);
    }
  }
  EXPECT_EQ(steps, (std::set<int64_t>{1, 4, 8, 12}));
  for (const auto& [kind, metric] : {std::pair("params", "l2_params"), {"updates", "l2_updates"}, {"gradients", "l2_grads"}}) {
    for (const json& point : events["scalars"][metric]) {
      const int64_t step = point[0];
      if (!steps.contains(step)) continue;
      const double norm = point[1];
      EXPECT_NEAR(std::sqrt(squares[{kind, step}]), norm, 1e-5 * norm) << kind << " at " << step;
    }
  }
}

// The summary that a report reads has the same examples and cells.
json last_evaluation(const std::string& workdir, const std::string& name) {
  return json::parse(testing::slurp(small_run().path(workdir) + "/evals/" + name + ".last.json"));
}

image::Image decoded(const std::string& path) {
  const std::string bytes = testing::slurp(path);
  image::Image image;
  EXPECT_FALSE(image::Decoder().decode({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, image));
  return image;
}

TEST(TensorBoard, HasTheWorstImagesOfEachEvaluation) {
  const json events = testing::read_events(tb(whole())), last = last_evaluation(whole(), "val");
  const json& images = events["images"]["val/worst"];
  ASSERT_EQ(images.size(), 4u) << "of steps 3, 6, 9 and 12";
  EXPECT_EQ(images[3][0], 12);
  ASSERT_EQ(images[3][1].size(), 8u);
  // The worst one, with the middle of its file's pixels.
  const std::string id = last["worst"][0]["id"];
  const image::Image file = decoded(small_run().path("val/" + id));
  ASSERT_EQ(images[3][1][0].size(), 8u * 8 * 3);
  for (int y = 0; y < 8; ++y) {
    for (int i = 0; i < 24; ++i) EXPECT_EQ(images[3][1][0][y * 24 + i], file.row(y + 1)[3 + i]) << y << " " << i;
  }
  const std::string table = events["texts"]["val/worst_table"][3][1];
  EXPECT_NE(table.find("| 1 | " + id + " |"), std::string::npos) << table;
  EXPECT_NE(table.find("| 8 |"), std::string::npos) << table;
  EXPECT_EQ(table.find("| 9 |"), std::string::npos) << table;
}

// Three classes: cells of 40 pixels beside their names. The darker, the greater the share of the row.
TEST(TensorBoard, HasTheConfusionMatrixOfEachEvaluation) {
  const json images = testing::read_events(tb(whole()))["images"]["val/confusion"], last = last_evaluation(whole(), "val");
  ASSERT_EQ(images.size(), 4u);
  constexpr size_t kMargin = 90, kCell = 40, kWidth = kMargin + 3 * kCell;
  const json& pixels = images[3][1][0];
  ASSERT_EQ(pixels.size(), kWidth * 3 * kCell * 3);
  double counts[3][3] = {}, rows[3] = {};
  for (size_t i = 0; i < last["confusion"].size(); i += 3) {
    const size_t label = last["confusion"][i], predicted = last["confusion"][i + 1];
    const double count = last["confusion"][i + 2];
    counts[label][predicted] = count;
    rows[label] += count;
  }
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 3; ++column) {
      const int red = pixels[3 * ((row * kCell + 1) * kWidth + kMargin + column * kCell + 1)];
      EXPECT_NEAR(red, 255 - 235 * counts[row][column] / rows[row], 1) << row << " " << column;
    }
  }
}

TEST(TensorBoard, ServesFeaturesToItsProjector) {
  const std::string near = fmt::format(
      "eval.near={{type='knn', k=3, every='12 steps', data={{source='folder({0}/val)', pp='{1}'}}, "
      "train={{source='folder({0}/train)', pp='{1}'}}}}",
      small_run().path("."), "decode | central_crop(8) | value_range(-1, 1)");
  small_run().train("projected/run", {near, "monitor.projector=10"});
  const json served = testing::serve_tensorboard(small_run().path("projected"));
  const json& embeddings = served["projector"]["run/tb"];
  ASSERT_EQ(embeddings.size(), 1u) << served["projector"].dump();
  const json& near_at_end = embeddings["near at step 12"];
  ASSERT_EQ(near_at_end["values"].size(), 10u) << "of 23 images";
  for (const json& row : near_at_end["values"]) EXPECT_EQ(row.size(), 16u) << "the model's width";
  EXPECT_EQ(near_at_end["metadata"].size(), 11u);
  EXPECT_EQ(near_at_end["metadata"][0], json({"label", "name"}));
  std::set<std::string> labels;
  for (size_t i = 1; i < 11; ++i) {
    const std::string label = near_at_end["metadata"][i][0], name = near_at_end["metadata"][i][1];
    EXPECT_TRUE(name.starts_with(label + "/")) << name;
    labels.insert(label);
  }
  EXPECT_EQ(labels.size(), 3u) << "evenly over the source";
  EXPECT_EQ(near_at_end["sprite"], json({4 * 48, 4 * 48}));
  EXPECT_EQ(near_at_end["side"], json({48, 48}));
  const json& images = served["images"]["run/tb"];
  EXPECT_EQ(images["val/worst"]["12"].size(), 8u);
  EXPECT_EQ(images["val/confusion"]["12"], json({{90 + 120, 120}}));
  EXPECT_EQ(images["near/confusion"]["12"].size(), 1u);
  // Nothing is removed where a link leads to.
  fs::create_directory(small_run().path("features"));
  testing::spill(small_run().path("features") + "/tensors.tsv", "precious");
  fs::create_directory_symlink(small_run().path("features"), tb("projected/run") + "/projector/other_000000099");
  // A run that goes on from before has none until its end.
  for (const int64_t step : {12}) fs::remove_all(small_run().step_of("projected/run", step));
  small_run().train("projected/run", {near, "monitor.projector=0"});
  EXPECT_FALSE(fs::exists(tb("projected/run") + "/projector_config.pbtxt"));
  EXPECT_TRUE(fs::is_symlink(tb("projected/run") + "/projector/other_000000099"));
  EXPECT_EQ(testing::slurp(small_run().path("features") + "/tensors.tsv"), "precious");
  // Nor where the whole folder is one: another run's, say.
  fs::remove_all(tb("projected/run") + "/projector");
  fs::create_directory(small_run().path("features") + "/near_000000099");
  fs::create_directory_symlink(small_run().path("features"), tb("projected/run") + "/projector");
  small_run().train("projected/run", {near, "monitor.projector=10", "total=24 steps"});
  EXPECT_TRUE(fs::exists(small_run().path("features") + "/near_000000099"));
  EXPECT_EQ(std::distance(fs::directory_iterator(small_run().path("features")), {}), 2);
}

TEST(TensorBoard, IsOffWhereTheRecipeSaysSo) {
  small_run().train("no_board", {"monitor.sinks=[]", "total=6 steps"});
  EXPECT_FALSE(fs::exists(tb("no_board")));
  EXPECT_NE(small_run()
                .failure("bad_board", {"monitor.sinks=['tensorbord']"}, Exit::kUsage)
                .find("known: tensorboard, wandb, mlflow"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::train

#endif
