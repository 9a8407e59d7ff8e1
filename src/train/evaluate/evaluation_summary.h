#pragma once
// What the last evaluation of a run leaves for its report: which classes were taken for which, and the examples with the
// greatest loss. Small whatever the data set; a function of the scores of its examples alone.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metrics/confusion.h"
#include "train/evaluate/evaluate.h"

namespace tessera::train {

// The examples that are kept, and the cells of a matrix: those with most examples where there are more.
inline constexpr size_t kWorstExamples = 32;
inline constexpr size_t kMaxConfusionCells = 1'000'000;

// One that the model was far from. Classes are places in the list, -1 where there is none.
struct WorstExample {
  int64_t sample = 0;  // its place in the source
  std::string id;      // and its name there: the path of a file
  int32_t label = -1, predicted = -1;
  double loss = 0;                    // infinite where it is no number
  std::optional<double> probability;  // of what was predicted; where the evaluation keeps predictions
  bool operator==(const WorstExample&) const = default;
};

struct EvaluationSummary {
  std::string name;       // "val_ema"
  std::string evaluator;  // of [eval.NAME], whose data these are: "val"
  int64_t step = 0;
  std::vector<Score> scores;         // the one that counts first
  int64_t count = 0, skipped = 0;    // images scored, and files that could not be read
  std::vector<std::string> classes;  // empty: the evaluator predicts none, and there is no matrix
  std::vector<metrics::ConfusionCell> confusion;
  int64_t left_out = 0;             // examples in cells beyond kMaxConfusionCells
  std::string worst_by;             // the score that orders them: "loss"; empty where there is none of each example
  std::vector<WorstExample> worst;  // the greatest first; of equal ones that which comes first in the source
};

// From the evaluator's predictions of each example: the confusion matrix, where it predicts one class, and the worst examples by
// the first score that is a mean, where less is better.
EvaluationSummary summary_of(const recipe::EvalPlan& plan, const Evaluation& evaluation, const std::string& name, int64_t step);

std::string to_json(const EvaluationSummary& summary);
// Throws a data Error at `where` for what to_json() does not write.
EvaluationSummary parse_evaluation_summary(std::string_view json, const std::string& where);

}  // namespace tessera::train
