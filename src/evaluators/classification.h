#pragma once

#include "evaluators/evaluator.h"
#include "evaluators/tta.h"

namespace tessera::evaluators {

struct ClassificationOptions {
  std::vector<std::string> metrics;
  bool per_class = false;
  std::string real;
  std::string tta = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("metrics", metrics,
          "further scores: f1_macro (the mean over classes), f1_weighted (by their examples), cohen_kappa, balanced_accuracy, "
          "roc_auc "
          "(the mean over classes, each against the rest); as scikit-learn has them");
    field("per_class", per_class,
          "write recall and precision of each class and the confusion matrix to <workdir>/evals/NAME_<step>.json");
    field("real", real,
          "a JSON file with a list of right classes for each image, for the score real@1: real.json of reassessed-imagenet, "
          "which goes by ILSVRC2012_val_<number> in the names; any other list goes by the order of the data, and "
          "{\"name\": [classes]} by file name");
    field("tta", tta, kTtaHelp);
  }
};

// The factory of evaluators.def: loss (softmax cross-entropy, natural logarithm), prec@1 and prec@5; with `real`, real@1: the
// share of images with right classes whose prediction is one of them. With `metrics`, these
// (metrics/class_tally.h; roc_auc: one_vs_rest_auc of metrics/multi_label.h).
std::shared_ptr<const Evaluator> make_classification(config::Section section, const EvaluatorData& available);

}  // namespace tessera::evaluators
