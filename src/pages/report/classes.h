#pragma once
// Tables of the classes that an evaluation confused.

#include <string>
#include <vector>

#include "pages/report/html.h"
#include "train/evaluate/evaluation_summary.h"

namespace tessera::report {

// Classes up to which a table shows the whole confusion matrix, and all classes; pairs and classes that are shown beyond.
inline constexpr size_t kWholeMatrix = 50;
inline constexpr size_t kShownPairs = 20;

struct ClassFigures {
  size_t place = 0;  // in the list of classes
  int64_t images = 0, given = 0, right = 0;
  // NaN where there is nothing to divide by.
  double recall() const;
  double precision() const;
  double f1() const;
};
// Of every class, in their order.
std::vector<ClassFigures> class_figures(const train::EvaluationSummary& evaluation);

// Off the diagonal, the most frequent first, then in the order of the matrix: fastai's most_confused.
std::vector<metrics::ConfusionCell> most_confused(const train::EvaluationSummary& evaluation);

// The name of a class; "no answer" for a place behind the last.
std::string class_name(const train::EvaluationSummary& evaluation, int64_t place);

Markup class_table(const train::EvaluationSummary& evaluation);
// The matrix where it is small.
Markup confusion_table(const train::EvaluationSummary& evaluation);
Markup confused_pairs(const train::EvaluationSummary& evaluation);

// class,images,recall,precision,f1
std::string classes_csv(const train::EvaluationSummary& evaluation);
// label,predicted,count: cells with images alone
std::string confusion_csv(const train::EvaluationSummary& evaluation);
// path,label,predicted,<score>
std::string worst_csv(const train::EvaluationSummary& evaluation);

}  // namespace tessera::report
