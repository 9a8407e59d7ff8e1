#include "pages/report/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "pages/report/made_run.h"

namespace tessera::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::facts_of;
using ::testing::HasSubstr;
using testing::Measured;

SavedRun run_of(const Measured& measured, const std::string& state = "done", const std::string& message = "") {
  const testing::TempDir dir;
  testing::write_metrics(dir / "run", measured);
  testing::spill(dir / "run/recipe.toml", testing::recipe_text("."));
  SavedRun run = read_runs({dir / "run"})[0];
  run.facts = facts_of(state, message);
  run.evaluations = {testing::summary_of({"cat", "dog"})};
  return run;
}

std::vector<std::string> topics(const SavedRun& run) {
  std::vector<std::string> out;
  for (const Remark& remark : verdict(run)) out.push_back(remark.topic);
  return out;
}

std::string text_of(const SavedRun& run, const std::string& topic) {
  for (const Remark& remark : verdict(run)) {
    if (remark.topic == topic) return remark.text + " " + remark.advice;
  }
  return "nothing";
}

// Falls and levels out; the validation follows.
const Measured kGood = {{0.6, 0.8, 0.88, 0.9, 0.9}, {1, 0.6, 0.4, 0.35, 0.34}, {1.2, 0.7, 0.4, 0.3, 0.28}, 0.01};

TEST(Verdict, OfAGoodRunIsShort) {
  const SavedRun run = run_of(kGood);
  EXPECT_THAT(topics(run), ElementsAre("ended", "score"));
  EXPECT_EQ(text_of(run, "ended"), "The run ended as planned, after 100 steps. ");
  EXPECT_EQ(text_of(run, "score"), "Best prec@1 of `val`: 90.00 % at step 80; 90.00 % at the end. ");
}

TEST(Verdict, SaysThatItWasStillImproving) {
  Measured measured = kGood;
  measured.accuracy = {0.3, 0.4, 0.5, 0.6, 0.7};
  const SavedRun run = run_of(measured);
  EXPECT_THAT(topics(run), ElementsAre("ended", "score", "improving"));
  EXPECT_THAT(text_of(run, "improving"), AllOf(HasSubstr("from 50.00 % to 70.00 %"), HasSubstr("`total`")));
  // Within one standard error of 1,000 images (1.4 points) is no improvement; nor is a last value that is no longer the best.
  measured.accuracy = {0.3, 0.4, 0.695, 0.69, 0.7};
  EXPECT_THAT(topics(run_of(measured)), ElementsAre("ended", "score"));
  measured.accuracy = {0.3, 0.4, 0.5, 0.8, 0.7};
  EXPECT_THAT(topics(run_of(measured)), ElementsAre("ended", "score"));
  EXPECT_THAT(text_of(run_of(measured), "score"), HasSubstr("checkpoint.best=\"val/prec@1\""));
}

TEST(Verdict, SaysThatScoresAreNoNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Measured measured = kGood;
  measured.accuracy = {0.6, 0.8, nan, nan, nan};
  EXPECT_THAT(text_of(run_of(measured), "score"), HasSubstr("80.00 % at step 40; no finite number at the end."));
  measured.accuracy = {0.6, nan, nan, nan, nan};
  EXPECT_THAT(text_of(run_of(measured), "score"), HasSubstr("60.00 % at step 20; no finite number at the end."));
  measured.accuracy = {0.3, 0.4, 0.5, 0.7, nan};
  EXPECT_THAT(topics(run_of(measured)), ElementsAre("ended", "score")) << "that is no improvement";
  measured.accuracy = {nan, nan, nan, nan, nan};
  EXPECT_THAT(text_of(run_of(measured), "score"), HasSubstr("The prec@1 of `val` was never a finite number."));
}

TEST(Verdict, SaysThatItOverfits) {
  Measured measured = kGood;
  measured.loss = {1, 0.6, 0.7, 0.8, 0.9};
  measured.training_loss = {1.2, 0.8, 0.4, 0.2, 0.1};
  const SavedRun run = run_of(measured);
  EXPECT_THAT(topics(run), ElementsAre("ended", "score", "overfitting"));
  EXPECT_THAT(text_of(run, "overfitting"),
              AllOf(HasSubstr("from step 40 on"), HasSubstr("from 0.6 to 0.9"), HasSubstr("from 0.8 to 0.1")));
  measured.training_loss = {1.2, 0.8, 0.9, 1, 1.1};  // it got worse in both
  EXPECT_THAT(topics(run_of(measured)), ElementsAre("ended", "score"));
  measured.loss = {1, 0.6, 0.61, 0.6, 0.62};
  measured.training_loss = {1.2, 0.8, 0.4, 0.2, 0.1};
  EXPECT_THAT(topics(run_of(measured)), ElementsAre("ended", "score")) << "by 3 %";
}

TEST(Verdict, LooksForOverfittingInEveryEvaluator) {
  Measured measured = kGood;
  measured.training_loss = {1.2, 0.8, 0.4, 0.2, 0.1};
  SavedRun run = run_of(measured);
  for (size_t i = 0; i < 5; ++i) {  // `val` is well, another is not
    run.rows[i].values["held_out/loss"] = std::vector<double>{1, 0.6, 0.7, 0.8, 0.9}[i];
    run.rows[i].values["held_out/count"] = 10;
  }
  EXPECT_THAT(topics(run), ElementsAre("ended", "score", "score", "overfitting"));
  EXPECT_THAT(text_of(run, "overfitting"), HasSubstr("the loss of `held_out`"));
}

TEST(Verdict, SaysThatUpdatesWereSkipped) {
  SavedRun run = run_of(kGood);
  for (monitor::MetricRow& row : run.rows) row.values["skips"] = 0;
  EXPECT_THAT(topics(run), ElementsAre("ended", "score"));
  run.rows.back().values["skips"] = 2;
  EXPECT_THAT(topics(run), ElementsAre("ended", "score", "skipped"));
  EXPECT_THAT(text_of(run, "skipped"), AllOf(HasSubstr("2 of 100 updates were skipped."), HasSubstr("bad_batches/")));
}

TEST(Verdict, SaysThatItWaitsForInput) {
  Measured measured = kGood;
  measured.wait = 0.3;
  const SavedRun run = run_of(measured);
  EXPECT_THAT(topics(run), ElementsAre("ended", "score", "input"));
  EXPECT_THAT(text_of(run, "input"), AllOf(HasSubstr("input-bound"), HasSubstr("30 %"), HasSubstr("decode (75 %)")));
  EXPECT_TRUE(verdict(run).back().trouble);
  measured.wait = 0.1;
  EXPECT_FALSE(verdict(run_of(measured)).back().trouble);
}

TEST(Verdict, SaysWhatOfTheRunCannotBeRead) {
  SavedRun run = run_of(kGood);
  run.problems = {"cannot read `run/evals`: Permission denied"};
  EXPECT_THAT(topics(run), ElementsAre("ended", "unread", "score"));
  EXPECT_EQ(text_of(run, "unread"), "A part of the run is left out: cannot read `run/evals`: Permission denied. ");
  run.rows.clear();
  EXPECT_THAT(text_of(run, "ended"), HasSubstr("after steps that can't be read"));
  run.facts.reset();
  EXPECT_THAT(text_of(run, "ended"), HasSubstr("The measurements end after steps that can't be read"));
}

TEST(Verdict, SaysHowARunEnded) {
  Measured half = kGood;
  half.accuracy.resize(2), half.loss.resize(2), half.training_loss.resize(2);
  EXPECT_THAT(text_of(run_of(half, "stopped", "SIGTERM"), "ended"),
              HasSubstr("stopped early by SIGTERM, after 40 steps (40 % of its length)"));
  SavedRun between = run_of(half, "stopped", "SIGTERM");  // two lines
  between.facts->last_save = train::LastSave{53, 0.1, 20};
  EXPECT_THAT(text_of(between, "ended"), HasSubstr("after 53 steps (53 % of its length)"));
  between.facts->last_save->step = 20;  // of an earlier start
  EXPECT_THAT(text_of(between, "ended"), HasSubstr("after 40 steps (40 % of its length)"));
  EXPECT_THAT(verdict(run_of(half, "stopped", "--until")).front().advice, HasSubstr("without --until"));
  EXPECT_THAT(
      text_of(run_of(half, "diverged", "the run diverged: training_loss is nan at step 41"), "ended"),
      AllOf(HasSubstr("The run diverged: training_loss is nan at step 41."), HasSubstr("tighter clipping (optimizer.clip)")));
  EXPECT_THAT(text_of(run_of(half, "failed", "no memory"), "ended"), HasSubstr("failed after 40 steps"));
  EXPECT_THAT(text_of(run_of(half, "running"), "ended"), HasSubstr("or was killed"));
  SavedRun old = run_of(half);
  old.facts.reset();
  EXPECT_THAT(text_of(old, "ended"), HasSubstr("The measurements end after 40 steps"));
  EXPECT_EQ(verdict(SavedRun{})[0].text, "Nothing was measured yet.");
}

TEST(Verdict, SaysThatNothingWasLearned) {
  Measured measured = kGood;
  measured.accuracy = {0.5, 0.51, 0.5, 0.49, 0.5};
  EXPECT_THAT(text_of(run_of(measured), "chance"), HasSubstr("1 of 2 classes"));
}

TEST(Verdict, SaysThatGradientsJumped) {
  SavedRun run = run_of(kGood);
  run.rows.clear();
  for (int64_t step = 1; step <= 30; ++step)
    run.rows.push_back({step, {{"l2_grads", step == 17 ? 50.0 : step == 3 ? std::nan("") : 2.0}}});
  EXPECT_THAT(text_of(run, "unstable"), HasSubstr("reached 50 at step 17, 25 times its median"));
  run.rows[16].values["l2_grads"] = 10;
  EXPECT_EQ(text_of(run, "unstable"), "nothing");
}

// What was told while the run went on (monitor/alerts.h), where no other remark says it.
TEST(Verdict, RepeatsAlerts) {
  SavedRun run = run_of(kGood);
  run.rows.clear();
  for (int64_t i = 0; i < 200; ++i) {
    const double loss = i % 70 == 60 ? 50 : 2 - 0.005 * static_cast<double>(i);
    run.rows.push_back({10 * (i + 1), {{"training_loss", loss}, {"img/sec", i < 100 ? 1000.0 : 500.0}}});
  }
  EXPECT_THAT(topics(run), ElementsAre("ended", "loss_spike", "throughput"));
  EXPECT_THAT(text_of(run, "loss_spike"), AllOf(HasSubstr("The training loss jumped to 50 at step 610, from about 1.7"),
                                                HasSubstr(". It happened 2 times. If it does not come down")));
  EXPECT_THAT(text_of(run, "throughput"),
              HasSubstr("Training slowed down to 500 img/s or less at step 1,050, from 1000. Look"));
  for (const char* kind : {"loss_spike", "images", "input", "process", "throughput", "memory", "chance"}) {
    run.rows = testing::alarming_rows(kind);
    const std::vector<std::string> all = topics(run);
    EXPECT_EQ(std::ranges::count(all, kind), 1) << kind;
    EXPECT_LE(all.size(), 3u) << kind << ": how it ended, the score where there is one, and the alert";
  }
  run.rows = testing::alarming_rows("input");
  EXPECT_THAT(text_of(run, "input"), HasSubstr("The devices waited 50 % of the time for input, up to step 2,050. Try"));
  run.rows = testing::alarming_rows("process");
  EXPECT_THAT(text_of(run, "process"),
              HasSubstr("Up to step 2,050: process 1 waits 40 % of the time for its input, the others 1 %, and wait for it. "
                        "Compare the disk"));
  run.rows = testing::alarming_rows("chance");
  EXPECT_THAT(text_of(run, "chance"), HasSubstr("`val` is at the level of chance, 1 of 2 classes, after 1,200 steps"));
}

TEST(Verdict, CountsFilesThatCouldNotBeRead) {
  SavedRun run = run_of(kGood);
  run.evaluations[0].skipped = 1200;
  EXPECT_THAT(text_of(run, "unreadable"), HasSubstr("1,200 files of `val` could not be read and are left out"));
}

}  // namespace
}  // namespace tessera::report
