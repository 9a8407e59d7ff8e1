// The event files of whole runs, as TensorBoard's own reader finds them.

#include "support/tensorboard.h"

#ifdef TESSERA_TENSORBOARD_PYTHON

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

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
  const std::string name = fmt::format("board_from_{}", k);
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

TEST(TensorBoard, IsOffWhereTheRecipeSaysSo) {
  small_run().train("no_board", {"monitor.sinks=[]", "total=6 steps"});
  EXPECT_FALSE(fs::exists(tb("no_board")));
  EXPECT_NE(small_run().failure("bad_board", {"monitor.sinks=['tensorbord']"}, Exit::kUsage).find("tensorboard"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::train

#endif
