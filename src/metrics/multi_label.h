#pragma once
// Scores of examples that may be of several classes, or of none, from a logit for each class. They are scikit-learn's functions
// of the names given here, of indicator matrices.

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/features.h"
#include "metrics/ranking.h"

namespace tessera::metrics {

// 1 / (1 + exp(-logit)).
double sigmoid(double logit);

// How one class did.
struct ClassScores {
  Ranking ranking;
  int64_t examples = 0, given = 0, right = 0;  // of the class; that were given it; both

  // Each 0 where there is nothing to divide by, as scikit-learn's zero_division=0.
  double precision() const;
  double recall() const;
  double f1() const;  // 2 right / (examples + given)
};

class MultiLabelScores {
 public:
  // logits and multi_hot (0 or 1) are [examples, classes]. An example is given a class where the sigmoid of its logit is
  // above `threshold`; a logit that is no number is below.
  MultiLabelScores(const Features& logits, std::span<const uint8_t> multi_hot, double threshold);

  const std::vector<ClassScores>& classes() const { return classes_; }
  // average_precision_score(average="macro") and roc_auc_score(average="macro"), over the classes that have them:
  // scikit-learn counts a class without examples as 0 in the first, and the second is NaN with one.
  double mean_average_precision() const;
  double auc() const;
  // f1_score(average="micro"), and "macro", of all classes.
  double f1_micro() const;
  double f1_macro() const;

 private:
  std::vector<ClassScores> classes_;
};

// roc_auc_score(multi_class="ovr", average="macro") of softmax(logits): for each class how well its probability tells its examples
// from the others, and the mean over the classes that have such a number. logits [examples, classes].
double one_vs_rest_auc(const Features& logits, std::span<const int32_t> labels);

}  // namespace tessera::metrics
