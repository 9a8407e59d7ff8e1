#pragma once
// What sinks show of an evaluation besides its scores.

#include <cstdint>
#include <vector>

#include "metrics/features.h"
#include "monitor/record.h"
#include "recipe/data_options.h"
#include "train/evaluate/evaluation_summary.h"

namespace tessera::train {

// An evaluation, held apart from the run: its pictures may be made while the run is left.
struct EvaluationView {
  recipe::Data data;
  EvaluationSummary summary;
  int64_t worst = 0;  // examples to show
  // Of the projector's examples, [examples, width] with the place of each in the source; may be empty.
  metrics::Features features;
  std::vector<int64_t> samples;
};

// At most `count` rows of an evaluation's features, evenly over its examples.
void take_features(const Evaluation& evaluation, int64_t count, EvaluationView& view);

// In this order, as far as there is something of it:
//   <name>/confusion  the confusion matrix: a row of cells for each class, a column for each prediction, the darker the greater
//                     the share of the row. Few classes have names and counts; of more than 1000, several share a cell.
//   <name>/worst        the examples with the greatest loss, of 96 pixels a side at most, the worst first, without those that
//                       can't be read
//   <name>/worst_table  in words: their places, names, labels, predictions and losses
//   <name>              features, with a label, a name and a picture of 48 pixels a side for each.
// Throws what the source does.
std::vector<monitor::RecordContent> evaluation_pictures(const EvaluationView& view);

}  // namespace tessera::train
