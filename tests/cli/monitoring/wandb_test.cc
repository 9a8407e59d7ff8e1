// Runs for W&B, as its own `wandb sync` uploads them.

#ifdef TESSERA_HAS_TRACKERS

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/metrics_lines.h"
#include "support/python_script.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

class Wandb : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    write_images(*folder_ / "train", 12);
    write_images(*folder_ / "val", 5);
    write_file(*folder_ / "tiny.toml", tiny_recipe());
    train("whole");
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::vector<std::string> command(const std::string& workdir, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args{"train",       "tiny.toml",     "--workdir",       workdir, "monitor.sinks=['wandb']",
                                  "log=1 steps", "total=9 steps", "monitor.images=3"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  static void train(const std::string& workdir, const std::vector<std::string>& more = {}, int exit = 0) {
    const Outcome outcome = run_program(command(workdir, more), folder_->path(), variables());
    EXPECT_EQ(outcome.exit, exit) << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("wandb:")));
  }
  static std::map<std::string, std::string> variables() {
    return {{"WANDB_PROJECT", "squares"}, {"WANDB_TAGS", "tiny, test"}, {"WANDB_API_KEY", "a-very-secret-key"}};
  }
  static fs::path run_directory(const std::string& workdir) {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(*folder_ / workdir / "wandb")) found.push_back(entry.path());
    EXPECT_EQ(found.size(), 1u) << "one run, however often it was started";
    return found.at(0);
  }
  static Json synced(const std::string& workdir) {
    return testing::ask_script(testing::trackers_python_path(), "sync_wandb.py", {run_directory(workdir).string()});
  }
  // The undisturbed run; the script takes seconds.
  static const Json& whole() {
    static const Json told = synced("whole");
    return told;
  }
  // As if it had been killed after step k: later checkpoints are not there.
  static void killed_after(const std::string& workdir, int64_t k) {
    fs::copy(*folder_ / "whole", *folder_ / workdir, fs::copy_options::recursive);
    for (const fs::directory_entry& entry : fs::directory_iterator(*folder_ / workdir / "checkpoints")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("step_") && std::stoll(name.substr(5)) > k) fs::remove_all(entry.path());
    }
  }
  static Curves curves_of_history(const Json& told) {
    Curves curves;
    int64_t last = -1;
    for (const Json& row : told["history"]) {
      EXPECT_GT(row["_step"], last) << "one row a step, in their order";
      last = row["_step"];
      for (const auto& [name, value] : row.items()) {
        if (!name.starts_with("_") && value.is_number()) curves[name][last] = value;
      }
    }
    return curves;
  }

  static inline TempFolder* folder_ = nullptr;
};

TEST_F(Wandb, SyncSendsEveryFigureOfEveryLine) {
  const Json& told = whole();
  EXPECT_EQ(curves_of_history(told), curves_of(*folder_ / "whole"));
  EXPECT_EQ(told["ends"]["exitcode"], 0);
  EXPECT_EQ(told["ends"]["complete"], true);
  const Curves curves = curves_of(*folder_ / "whole");
  EXPECT_EQ(told["summary"]["val/prec@1"], curves.at("val/prec@1").at(9));
  EXPECT_EQ(told["summary"]["_step"], 9);
  const Json& last = told["history"].back();
  EXPECT_EQ(last["_step"], 9);
  EXPECT_GT(last["_timestamp"], 1.7e9);
  EXPECT_NEAR(last["_runtime"], last["uptime"], 1);
}

TEST_F(Wandb, SyncSendsTheRecipeAndWhoseRunItIs) {
  const Json& told = whole();
  EXPECT_EQ(told["run"]["displayName"], "whole");
  EXPECT_EQ(told["run"]["project"], "squares");
  EXPECT_EQ(told["run"]["tags"], Json({"tiny", "test"}));
  EXPECT_EQ(told["config"]["optimizer.name"]["value"], "adamw");
  EXPECT_EQ(told["config"]["model.width"]["value"], 16);
  EXPECT_EQ(told["config"]["eval_at_start"]["value"], false);
  EXPECT_THAT(told["files"]["recipe.md"].get<std::string>(), HasSubstr("    [optimizer]"));
  EXPECT_THAT(told["files"]["wandb-metadata.json"].get<std::string>(), HasSubstr("--workdir"));
  EXPECT_TRUE(told["files"].contains("config.yaml"));
}

TEST_F(Wandb, SyncSendsTheFirstBatch) {
  const Json& told = whole();
  const auto row = std::ranges::find_if(told["history"], [](const Json& r) { return r.contains("first_batch"); });
  ASSERT_NE(row, told["history"].end());
  const Json& images = (*row)["first_batch"];
  EXPECT_EQ((*row)["_step"], 0);
  EXPECT_EQ(images["_type"], "images/separated");
  EXPECT_EQ(images["count"], 3);
  ASSERT_EQ(images["filenames"].size(), 3u);
  for (const Json& name : images["filenames"]) {
    const Json& pixels = told["files"][name.get<std::string>()];
    ASSERT_EQ(pixels.size(), 8u) << name;
    EXPECT_EQ(pixels[0].size(), 8u);
    EXPECT_EQ(pixels[0][0].size(), 3u);
  }
}

// The run has its id, its images and one row a step.
TEST_F(Wandb, ARunThatWasKilledIsOneThatWasNot) {
  for (const int64_t k : {3, 6}) {
    const std::string workdir = "killed_" + std::to_string(k);
    killed_after(workdir, k);
    write_file(run_directory(workdir) / (run_directory(workdir).filename().string() + ".wandb.synced"), "");
    train(workdir);
    const Json told = synced(workdir);
    EXPECT_EQ(timeless(curves_of_history(told)), timeless(curves_of_history(whole()))) << k;
    EXPECT_EQ(curves_of_history(told), curves_of(*folder_ / workdir)) << k;
    EXPECT_EQ(told["run"]["name"], whole()["run"]["name"]);
    EXPECT_EQ(told["history"][0]["first_batch"], whole()["history"][0]["first_batch"]);
    EXPECT_EQ(told["ends"]["exitcode"], 0);
  }
}

// Cut anywhere, and not there at all: metrics.jsonl has it.
TEST_F(Wandb, WhatTheFileLacksIsWrittenAgain) {
  for (const double share : {0.0, 0.3, 0.8}) {
    const std::string workdir = "cut_" + std::to_string(static_cast<int>(10 * share));
    killed_after(workdir, 6);
    for (const fs::directory_entry& entry : fs::directory_iterator(run_directory(workdir))) {
      if (entry.path().extension() != ".wandb") continue;
      fs::resize_file(entry.path(), static_cast<uintmax_t>(share * static_cast<double>(fs::file_size(entry.path()))));
    }
    train(workdir);
    EXPECT_EQ(curves_of_history(synced(workdir)), curves_of(*folder_ / workdir)) << share;
  }
}

TEST_F(Wandb, HistogramsStandInTheRowOfTheirStep) {
  train("histograms", {"monitor.histograms=3 steps"});
  const Json told = synced("histograms");
  EXPECT_EQ(curves_of_history(told), curves_of(*folder_ / "histograms"));
  int64_t found = 0;
  for (const Json& row : told["history"]) {
    for (const auto& [name, value] : row.items()) {
      if (!value.is_object() || value["_type"] != "histogram") continue;
      ++found;
      EXPECT_EQ(value["bins"].size(), value["values"].size() + 1) << name;
    }
  }
  EXPECT_GT(found, 10);
}

TEST_F(Wandb, ASignalIsPreemption) {
  RunningProgram run(command("stopped", {"total=100000 steps"}), folder_->path(), variables());
  while (run.running() && read_file(*folder_ / "stopped/metrics.jsonl").find("\"step\":3,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit, 75);
  const Json told = synced("stopped");
  EXPECT_EQ(told["ends"]["exitcode"], 75);
  EXPECT_EQ(told["ends"]["preempting"], true);
  EXPECT_EQ(curves_of_history(told), curves_of(*folder_ / "stopped"));
}

TEST_F(Wandb, KeysOfTheAccountAreWrittenNowhere) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(*folder_ / "whole")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(read_file(entry.path()).find("a-very-secret-key"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace tessera::cli

#endif
