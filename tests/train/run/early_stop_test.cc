// Runs that end before their total, by early_stop.

#include "train/run/early_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "train/small_run.h"
#include "train/workdir/run_facts.h"

namespace tessera::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

testing::SmallRun& small_run() {
  static testing::SmallRun run;
  return run;
}

recipe::EarlyStop rule_of(const std::string& text) {
  return *recipe::read_recipe(small_run().section({"early_stop=" + text})).early_stop;
}

// The step after whose score the run ends, of scores every 10 steps; 0: it does not.
int64_t end_of(const std::string& text, const std::string& metric, const std::vector<double>& scores) {
  const recipe::EarlyStop rule = rule_of(text);
  std::optional<state::EarlyStopState> state;
  int64_t step = 0;
  for (const double value : scores) {
    step += 10;
    Scores all;
    all.values.push_back({metric, rule.metric.share, value});
    state = after_scores(rule, state, step, {{"val", all}});
    if (early_end(rule, state)) return step;
  }
  return 0;
}

TEST(EarlyStop, WaitsForAScoreToGetBetter) {
  EXPECT_EQ(end_of("val/loss, patience=2", "loss", {5, 4, 4.5, 4.2, 3}), 40);
  EXPECT_EQ(end_of("val/loss, patience=2", "loss", {5, 4, 4.5, 3, 3.5, 2}), 0);
  EXPECT_EQ(end_of("val/prec@1, patience=2", "prec@1", {0.5, 0.6, 0.6, 0.6}), 40) << "as good is no better";
  EXPECT_EQ(end_of("val/loss, patience=1, min_delta=0.5", "loss", {5, 4.6}), 20);
  EXPECT_EQ(end_of("val/loss, patience=1, min_delta=0.5", "loss", {5, 4.4}), 0);
  // 15 steps after the best one are over at the second evaluation after it; 2 epochs are 10 steps here.
  EXPECT_EQ(end_of("val/loss, patience=15 steps", "loss", {5, 4, 4.5, 4.5}), 40);
  EXPECT_EQ(end_of("val/loss, patience=2 epochs", "loss", {5, 4, 4.5}), 30);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(end_of("val/loss, patience=2", "loss", {nan, nan, 5, nan, nan}), 50);
  EXPECT_EQ(end_of("val/loss, patience=2", "prec@1", {5, 5, 5, 5}), 0) << "scores of another name";
}

TEST(EarlyStop, SaysByHowMuchAScoreHadToGetBetter) {
  const recipe::EarlyStop rule = rule_of("val/loss, patience=1, min_delta=0.5");
  const state::EarlyStopState state{"val/loss", 5, 10, 20, 1};
  EXPECT_EQ(early_end(rule, state), "val/loss was best at step 10 (5) and got no better by more than 0.5 for 1 evaluation");
}

TEST(EarlyStop, MistakesAreNamed) {
  const auto failure = [](const std::string& text) -> std::string {
    try {
      rule_of(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(failure("val/los, patience=2"),
              AllOf(HasSubstr("no score of an evaluator"), HasSubstr("did you mean `val/loss`")));
  EXPECT_THAT(failure("val/loss"), HasSubstr("patience"));
  EXPECT_THAT(failure("val/loss, patience=0"), HasSubstr("at least 1 step or evaluation"));
  EXPECT_THAT(failure("val/loss, patience=2.5"), HasSubstr("at least 1 step or evaluation"));
  EXPECT_THAT(failure("val/loss, patience=soon"), HasSubstr("early_stop"));
  EXPECT_THAT(failure("val/loss"), HasSubstr("has no patience"));
  EXPECT_THAT(failure("val/loss, patience=2, min_delta=-1"), HasSubstr("min_delta"));
  EXPECT_THAT(failure("val/loss, patience=2, mode=max"), HasSubstr("mode"));
}

// The rate rises a thousandfold after six steps, and the loss with it.
const std::vector<std::string> kWorse{"total=60 steps", "checkpoint.every=6 steps",
                                      "optimizer.lr=step(3e-3, milestones=[6 steps], factors=[1000])",
                                      "early_stop=val/loss, patience=3"};

nlohmann::json state_at(const std::string& workdir, int64_t step) {
  nlohmann::json json = nlohmann::json::parse(
      checkpoint::load(fmt::format("{}/checkpoints/step_{:09}", small_run().path(workdir), step)).state_json);
  for (const char* by_the_clock : {"seconds", "times"}) json.erase(by_the_clock);
  return json;
}

TEST(EarlyStop, EndsARunAsDone) {
  const TrainResult result = small_run().train("early", kWorse);
  EXPECT_EQ(result.exit, Exit::kDone);
  ASSERT_LT(result.step, 60);
  EXPECT_THAT(result.checkpoint, HasSubstr(fmt::format("step_{:09}", result.step))) << "the end is saved";
  const RunFacts facts = parse_run_facts(testing::slurp(small_run().path("early") + "/run.json"), "run.json");
  EXPECT_EQ(facts.state, "done");
  EXPECT_THAT(facts.message, AllOf(HasSubstr("val/loss was best at step"), HasSubstr("no better for 3 evaluations")));
  const TrainResult again = small_run().train("early", kWorse);
  EXPECT_TRUE(again.finished_before);
  EXPECT_EQ(again.step, result.step);
  // With more patience it goes on from there, as it would have.
  std::vector<std::string> longer = kWorse;
  longer.back() = "early_stop=val/loss, patience=5";
  const TrainResult later = small_run().train("early", longer);
  EXPECT_EQ(later.step, result.step + 6);
  small_run().train("longer", longer);
  EXPECT_EQ(state_at("early", later.step)["early_stop"], state_at("longer", later.step)["early_stop"]);
}

TEST(EarlyStop, IsTheSameAfterARestartAnywhere) {
  namespace fs = std::filesystem;
  std::vector<std::string> all = kWorse;
  all.push_back("checkpoint.keep=99");
  const int64_t end = small_run().train("whole", all).step;
  for (int64_t k = 6; k < end; k += 6) {
    const std::string name = fmt::format("whole{}", k);
    fs::copy(small_run().path("whole"), small_run().path(name), fs::copy_options::recursive);
    for (int64_t later = k + 1; later <= end; ++later) {
      fs::remove_all(fmt::format("{}/checkpoints/step_{:09}", small_run().path(name), later));
    }
    EXPECT_EQ(small_run().train(name, all).step, end);
    EXPECT_EQ(state_at(name, end), state_at("whole", end));
  }
}

// Evaluators that would run at the end of the run do so at its early end.
TEST(EarlyStop, HasTheEvaluationsOfTheEnd) {
  std::vector<std::string> more = kWorse;
  more.push_back("eval.last={type=\"classification\", every=\"100 %\", data={source=\"folder(" + small_run().path("val") +
                 ")\", pp=\"decode | central_crop(8) | value_range(-1, 1)\"}}");
  const TrainResult result = small_run().train("at_end", more);
  ASSERT_LT(result.step, 60);
  ASSERT_EQ(result.scores.size(), 2u);
  EXPECT_EQ(result.scores[1].first, "last");
  EXPECT_EQ(result.scores[0].second.find("loss"), result.scores[1].second.find("loss"));
}

}  // namespace
}  // namespace tessera::train
