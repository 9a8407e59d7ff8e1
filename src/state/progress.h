#pragma once
// What a checkpoint holds besides arrays: `state.json`. With it a checkpoint needs no workdir: the run can go on from it, and
// its model can be used.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "optim/optimizer.h"
#include "state/run_times.h"

namespace tessera::state {

// In the order of metric_names (train/step/step.h).
struct StepMetric {
  std::string name;
  float value = 0;
  bool operator==(const StepMetric&) const = default;
};
using StepMetrics = std::vector<StepMetric>;

// The checkpoint that is kept as the best.
struct BestCheckpoint {
  std::string metric;  // by which
  int64_t step = 0;
  double value = 0;
  bool operator==(const BestCheckpoint&) const = default;
};

// Where a run with early_stop stands: the score that has to get better for the run to go on.
struct EarlyStopState {
  std::string metric;
  double best = 0;
  int64_t best_step = 0, last_step = 0;  // when it was the best, and when it was measured last
  int64_t worse = 0;                     // measurements since the best
  bool operator==(const EarlyStopState&) const = default;
};

struct Progress {
  int64_t step = 0;  // steps done; also the number of training batches used: data position
  int64_t examples_seen = 0;
  bool owed = false;                   // the run was interrupted before the evaluations and the metrics line of `step`
  std::optional<StepMetrics> metrics;  // of `step`; nothing at step 0. Finite, but for those of an update that was skipped
  double seconds = 0;                  // trained so far, by the clock
  RunTimes times;                      // where they went
  std::map<std::string, double> best;  // evaluator -> best of its first score
  optim::PlateauState plateau;         // of a plateau schedule
  std::optional<BestCheckpoint> best_checkpoint;
  std::vector<BestCheckpoint> runners_up;  // the next best ones that are kept too, best first
  std::optional<EarlyStopState> early_stop;
};

// Identifies a data set without reading its images: the number of samples, and a hash of that, of the classes, and of the names
// of up to some thousands of samples.
struct DataIdentity {
  int64_t samples = 0;
  std::string hash;  // empty: not known
  // A hash of all names and labels; empty where they are too many, or in shards, and in older checkpoints.
  std::string names = {};
  // A hash of the files of tokenizers; empty where there are none, and in older checkpoints.
  std::string tokenizers = {};

  // Whether they are the same, as far as both know.
  bool same_as(const DataIdentity& other) const;
};

// The same in every checkpoint of a run.
struct RunDescription {
  std::string recipe;  // resolved
  models::InputShape input;
  std::vector<std::string> class_names;
  std::string eval_pp;                                 // preprocessing for evaluation; empty when the recipe has none
  DataIdentity data = {};                              // of training; nothing in older checkpoints
  bool multi_label = false;                            // images of training may have several labels
  std::map<std::string, DataIdentity> eval_data = {};  // of each evaluator's first set; nothing in older checkpoints
};

std::string to_json(const Progress& progress, const RunDescription& run);
// Data Errors name `where`, the checkpoint.
Progress parse_progress(const std::string& json, const std::string& where);
RunDescription parse_description(const std::string& json, const std::string& where);

}  // namespace tessera::state
