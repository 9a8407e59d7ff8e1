#include "train/evaluate/evaluation_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "train/small_run.h"
#include "train/workdir/run_facts.h"

namespace tessera::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::small_run;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const recipe::EvalPlan& plan() {
  static const recipe::Recipe recipe = recipe::read_recipe(small_run().section());
  return recipe.evals[0];
}

// Of the examples of the small run's `val` (classes blue, green, red): label, predicted, loss.
Evaluation evaluation(const std::vector<std::tuple<int32_t, int32_t, float>>& examples) {
  Evaluation out;
  out.scores = {{{"prec@1", true, 0}, {"loss", false, 0}}, static_cast<int64_t>(examples.size()), 0};
  out.columns = {{"loss"}, {"prec@1"}, {"predicted", 1, true}};
  out.predictions.width = 3;
  for (const auto& [label, predicted, loss] : examples) {
    out.samples.push_back(static_cast<int64_t>(out.samples.size()));
    out.labels.push_back(label);
    for (const float value : {loss, static_cast<float>(label == predicted), static_cast<float>(predicted)})
      out.predictions.values.push_back(value);
  }
  return out;
}

TEST(EvaluationSummary, CountsClassesAndOrdersExamplesByLoss) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Evaluation made = evaluation({{0, 0, 0.1F}, {0, 2, 3}, {1, 3, nan}, {2, 2, 3}, {2, 0, 5}, {0, 2, 0.2F}});
  const EvaluationSummary summary = summary_of(plan(), made, "val_ema", 70);
  EXPECT_EQ(summary.name, "val_ema");
  EXPECT_EQ(summary.evaluator, "val");
  EXPECT_EQ(summary.step, 70);
  EXPECT_EQ(summary.count, 6);
  EXPECT_THAT(summary.classes, ElementsAre("blue", "green", "red"));
  using Cell = metrics::ConfusionCell;
  EXPECT_THAT(summary.confusion, ElementsAre(Cell{0, 0, 1}, Cell{0, 2, 2}, Cell{1, 3, 1}, Cell{2, 0, 1}, Cell{2, 2, 1}));
  EXPECT_EQ(summary.worst_by, "loss");
  // A loss that is no number first; equal ones in the order of the source; 3 of three classes is no answer.
  const data::Source& source = plan().sets[0].data.source();
  EXPECT_THAT(summary.worst,
              ElementsAre(WorstExample{2, source.id(2), 1, -1, kInfinity}, WorstExample{4, source.id(4), 2, 0, 5},
                          WorstExample{1, source.id(1), 0, 2, 3}, WorstExample{3, source.id(3), 2, 2, 3},
                          WorstExample{5, source.id(5), 0, 2, static_cast<double>(0.2F)},
                          WorstExample{0, source.id(0), 0, 0, static_cast<double>(0.1F)}));

  const EvaluationSummary read = parse_evaluation_summary(to_json(summary), "here");
  EXPECT_EQ(read.worst, summary.worst);
  EXPECT_EQ(read.confusion, summary.confusion);
  EXPECT_EQ(to_json(read), to_json(summary));
}

// Files without it are read too: those that CountsClassesAndOrdersExamplesByLoss writes.
TEST(EvaluationSummary, HasTheProbabilityOfWhatWasPredicted) {
  Evaluation made = evaluation({{0, 2, 3}, {1, 1, 0.5F}});
  made.columns.insert(made.columns.end(), {{"top", 2, true}, {"prob", 2}});
  made.predictions.width = 7;
  made.predictions.values = {3, 0, 2, 2, 0, 0.75F, 0.25F, 0.5F, 1, 1, 1, 0, std::numeric_limits<float>::quiet_NaN(), 0};
  const EvaluationSummary summary = summary_of(plan(), made, "val", 1);
  ASSERT_EQ(summary.worst.size(), 2u);
  EXPECT_EQ(summary.worst[0].probability, 0.75);
  EXPECT_EQ(summary.worst[1].probability, std::nullopt);
  const std::string text = to_json(summary);
  EXPECT_EQ(parse_evaluation_summary(text, "here").worst, summary.worst);
  std::string bad = text;
  EXPECT_THROW(parse_evaluation_summary(bad.replace(bad.find("0.75"), 4, "1.75"), "here"), Error);
}

TEST(EvaluationSummary, KeepsThirtyTwoExamples) {
  std::vector<std::tuple<int32_t, int32_t, float>> examples;
  // 23 images have names; their losses are 0, 1, 2, 0, 1, 2, …
  for (int i = 0; i < 23; ++i) examples.emplace_back(0, 0, static_cast<float>(i % 3));
  Evaluation made = evaluation(examples);
  for (int i = 0; i < 3; ++i) {  // each of them four times
    for (int j = 0; j < 23; ++j) {
      made.samples.push_back(j), made.labels.push_back(0);
      for (const float value : {static_cast<float>(j % 3), 1.F, 0.F}) made.predictions.values.push_back(value);
    }
  }
  const EvaluationSummary summary = summary_of(plan(), made, "val", 1);
  ASSERT_EQ(summary.worst.size(), kWorstExamples);
  // Of loss 2 there are 28; then the first four of loss 1.
  for (size_t i = 0; i < 28; ++i) EXPECT_EQ(summary.worst[i].loss, 2) << i;
  std::vector<int64_t> rest;
  for (size_t i = 28; i < 32; ++i) rest.push_back(summary.worst[i].sample);
  EXPECT_THAT(rest, ElementsAre(1, 4, 7, 10));
}

TEST(EvaluationSummary, WithoutClassesOrLossesSaysLess) {
  Evaluation made = evaluation({{0, 0, 1}, {1, 0, 2}});
  made.scores.values.pop_back();
  EXPECT_THAT(summary_of(plan(), made, "val", 1).worst, IsEmpty());
  EXPECT_EQ(summary_of(plan(), made, "val", 1).confusion.size(), 2u);
  made = evaluation({{0, 0, 1}, {1, 0, 2}});
  made.labels.clear();
  const EvaluationSummary unlabelled = summary_of(plan(), made, "val", 1);
  EXPECT_THAT(unlabelled.confusion, IsEmpty());
  EXPECT_EQ(unlabelled.worst[0], (WorstExample{1, plan().sets[0].data.source().id(1), -1, -1, 2}));
}

TEST(EvaluationSummary, RefusesWhatItDoesNotWrite) {
  const std::string good = to_json(summary_of(plan(), evaluation({{0, 2, 1}}), "val", 1));
  for (const auto& [from, to] : {std::pair{"[0,2,1]", "[0,2]"},
                                 {"[0,2,1]", "[0,9,1]"},
                                 {"[0,2,1]", "[-1,2,1]"},
                                 {"\"label\":0", "\"label\":3"},
                                 {"\"step\":1", "\"step\":\"x\""},
                                 {"\"name\"", "\"names\""}}) {
    std::string bad = good;
    ASSERT_NE(bad.find(from), std::string::npos) << from;
    bad.replace(bad.find(from), std::string(from).size(), to);
    try {
      parse_evaluation_summary(bad, "here.json");
      ADD_FAILURE() << to;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
      EXPECT_THAT(error.what(), HasSubstr("here.json")) << to;
    }
  }
}

TEST(RunRecord, ARunLeavesItsSummariesAndFacts) {
  const std::vector<std::string> overrides = {"total=4 steps", "eval.val.every=2 steps"};
  const TrainResult result = small_run().train("leaves", overrides);
  small_run().train("leaves_too", overrides);
  const std::string path = result.workdir + "/evals/val.last.json", text = testing::slurp(path);
  EXPECT_EQ(text, testing::slurp(small_run().path("leaves_too") + "/evals/val.last.json"));
  const EvaluationSummary summary = parse_evaluation_summary(text, path);
  EXPECT_EQ(summary.step, 4);
  EXPECT_EQ(summary.count, 23);
  int64_t right = 0, all = 0;
  for (const metrics::ConfusionCell& cell : summary.confusion) {
    all += cell.count;
    if (cell.label == cell.predicted) right += cell.count;
  }
  EXPECT_EQ(all, 23);
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / 23, result.scores[0].second.at("prec@1"));
  ASSERT_EQ(summary.worst.size(), 23u);
  EXPECT_TRUE(std::ranges::is_sorted(summary.worst, std::greater{}, &WorstExample::loss));

  const RunFacts facts = parse_run_facts(testing::slurp(result.workdir + "/run.json"), "run.json");
  EXPECT_EQ(facts.state, "done");
  EXPECT_EQ(facts.platform, "cpu");
  EXPECT_THAT(facts.plugin, HasSubstr("xla_cpu_pjrt.so, PJRT C API 0."));
  EXPECT_EQ(facts.devices, 1);
  EXPECT_GT(facts.parameters, 1000);
  EXPECT_GT(facts.flops, 1000);
  EXPECT_GT(facts.planned.peak + facts.planned.arguments, 0);
  EXPECT_GT(facts.host_peak, 1 << 20);
}

TEST(RunRecord, ARunThatDivergesSaysSo) {
  small_run().failure("diverges", {"optimizer.lr=1e38", "optimizer.clip=none"}, Exit::kDiverged);
  const RunFacts facts = parse_run_facts(testing::slurp(small_run().path("diverges") + "/run.json"), "run.json");
  EXPECT_EQ(facts.state, "diverged");
  EXPECT_THAT(facts.message, HasSubstr("at step"));
}

}  // namespace
}  // namespace tessera::train
