#pragma once
// Scores of a classifier from three counts a class, for any number of classes. They are scikit-learn's functions of the names
// given here, with its defaults but zero_division=0.

#include <cstdint>
#include <vector>

namespace tessera::metrics {

class ClassTally {
 public:
  explicit ClassTally(int64_t classes);

  // Classes from 0; `predicted` may be no class: an example without an answer.
  void add(int32_t label, int32_t predicted);

  // All are NaN without examples.
  // f1_score(average="macro"): the mean, over classes that are a label or a prediction, of 2 right / (examples + predictions).
  double f1() const;
  // f1_score(average="weighted"): the same by each class's share of the examples.
  double weighted_f1() const;
  // cohen_kappa_score: (o - e) / (1 - e), o the share of right predictions, e that of independent labels and predictions of these
  // frequencies. In [-1, 1]; NaN where all labels and predictions are of one class.
  double kappa() const;
  // balanced_accuracy_score: the mean of right / examples over classes with examples.
  double balanced_accuracy() const;

 private:
  struct Counts {
    int64_t examples = 0, predictions = 0, right = 0;
    double f1() const { return 2 * static_cast<double>(right) / static_cast<double>(examples + predictions); }
    double recall() const { return static_cast<double>(right) / static_cast<double>(examples); }
  };
  std::vector<Counts> classes_;
  int64_t examples_ = 0;
};

}  // namespace tessera::metrics
