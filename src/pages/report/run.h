#pragma once
// A run as its directory describes it: recipe, measurements, last evaluations, how it ended.

#include <optional>
#include <string>
#include <vector>

#include "monitor/metrics.h"
#include "store/file.h"
#include "train/evaluate/evaluation_summary.h"
#include "train/workdir/run_facts.h"

namespace tessera::report {

struct SavedRun {
  std::string path;
  std::string name;                                   // what it is called in a report; of several, unlike the others'
  std::string recipe;                                 // resolved, TOML; empty where it is missing
  std::vector<std::string> evaluators;                // of the recipe, in its order
  std::vector<monitor::MetricRow> rows;               // of metrics.jsonl, by ascending step
  std::vector<train::EvaluationSummary> evaluations;  // the last of each evaluator, in the order of evaluator_names()
  std::optional<train::RunFacts> facts;               // nothing where the run left none: it was killed early, or is older
  std::vector<std::string> problems;                  // files that could not be read, and why
};

// Usage Errors: there is no such directory, or it holds no run of ours; a directory that is named twice. Files of a run that
// can't be read or make no sense are `problems`; without recipe and metrics it is a data Error. They are called by
// shortest_names().
std::vector<SavedRun> read_runs(const std::vector<std::string>& paths, store::FileSystem& files = store::local_files());

// The same of one run, without its rows and its name: what is there while a run goes on.
SavedRun read_run_head(const std::string& path, store::FileSystem& files = store::local_files());
// The problem of a file that has lines which make no sense.
std::string unreadable_lines(const std::string& path, int64_t count);
// Whether a directory is a run's.
bool holds_run(const std::string& path, store::FileSystem& files = store::local_files());

// What runs are called: the shortest ends of their paths that are all different; the paths themselves where there are none.
std::vector<std::string> shortest_names(const std::vector<std::string>& paths);

// The values of a metric by step, finite or not.
std::vector<std::pair<int64_t, double>> series(const SavedRun& run, std::string_view metric);
// The names of the evaluators that gave scores: those of the recipe in its order, each before its averaged weights', then
// others by name.
std::vector<std::string> evaluator_names(const SavedRun& run);

// The score by which an evaluator's models are compared: its first, or of older runs prec@1 or loss.
struct MainScore {
  std::string evaluator, score;
  bool share = false;  // the more the better, in [0, 1]
  std::string metric() const { return evaluator + "/" + score; }
  bool better(double value, double than) const { return share ? value > than : value < than; }
  std::string text(double value) const;  // "98.33 %", "0.4123"
};
std::optional<MainScore> main_score(const SavedRun& run, const std::string& evaluator);

struct BestScore {
  MainScore score;
  double best = 0, last = 0;
  int64_t best_step = 0, last_step = 0;
  int64_t evaluations = 0;
};
// Of the values that are finite; nothing without any.
std::optional<BestScore> best_score(const SavedRun& run, const std::string& evaluator);

// Where a run's time went, in seconds.
struct TimeShares {
  double total = 0;
  double training = 0;                                 // the devices at work
  double waiting = 0;                                  // they wait for input
  double starting = 0;                                 // until the first step: compiling, reading the first batches
  double other = 0;                                    // evaluations, saves, later starts
  double images_per_second = 0;                        // while training
  std::vector<std::pair<std::string, double>> stages;  // of the input's working time, as shares
};
TimeShares time_shares(const SavedRun& run);

}  // namespace tessera::report
