#pragma once
// Trains the recipes of a sweep, some at a time, and compares them.
//
// Each is a run of its own in <directory>/<variant>, trained by a process of its own, so that one that fails takes none with it.
// Recipes that differ in the optimizer's numbers or the seed have one program, which the first process compiles and the others
// load (pjrt/cache.h).
//
// With halving (train/sweep/halving.h) they train rung by rung: a run pauses at a rung by `--until`, which changes nothing else about
// it, and goes on from its checkpoint where it is among the best. All runs of a rung end before the next one begins, so that
// which go on depends on their scores alone.

#include <sched.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cluster/launch/processes/plan.h"
#include "recipe/recipe.h"
#include "train/sweep/record.h"
#include "train/sweep/variants.h"

namespace tessera::sweep {

// Where a run trains while others train beside it.
struct Slot {
  std::string devices;                        // GPUs or TPU chips that no other slot has, "0,1"; empty: none
  std::vector<launch::Variable> environment;  // as CUDA_VISIBLE_DEVICES=0,1
  std::optional<cpu_set_t> processors;        // nothing: all
};

struct SweepOptions {
  std::string program;               // that trains: this one
  std::vector<std::string> command;  // behind it: "train", the recipe, what all have in common, flags
  std::vector<Variant> variants;
  // What train reads of a key and a value: "optimizer.lr=1e-4".
  std::function<std::string(const std::string& key, const std::string& value)> word;
  std::string directory;  // of all runs; made when missing
  // Where so many runs train that are left to train: as many of them at a time as there are slots, at least one.
  std::function<std::vector<Slot>(size_t runs)> slots;
  recipe::BestMetric metric;  // that ranks them
};

enum class Ending { kDone, kFailed, kStopped, kPruned };  // kPruned: it was not among the best of a rung

struct Trial {
  Variant variant;
  std::string path;  // its run's directory
  Ending ending = Ending::kStopped;
  Exit exit = Exit::kDone;           // of one that failed; kDevice where it was killed
  std::string problem;               // of one that failed: a line
  std::optional<double> best, last;  // of the metric
  int64_t best_step = 0, steps = 0;  // steps: as far as its metrics go
  size_t rung = 0;                   // of halving, from 1: the last one that it trained in, as far as it is known
  double seconds = 0;                // of this call; 0 where it was done before
  bool before = false;               // done by earlier calls
  int64_t compiled = 0, loaded = 0;  // how often its training step was, by this call
  double compile_seconds = 0;        // of the former
  double load_seconds = 0;           // of the latter, with what it waited for another process that compiled
};

struct SweepResult {
  std::vector<Trial> trials;  // in the order of the variants
  double seconds = 0;
  size_t rungs = 0;  // of halving, with the one that goes to the end; 0: none
  // By a signal, with this exit code: those that were running are saved, and the same call goes on with them.
  std::optional<Exit> stopped = {};
};

// Tells of each run as it ends. A run that is done already is not trained again. SIGTERM, SIGHUP and SIGINT let those that run
// save, and start no others. `record` says what was decided by earlier calls; decisions are added to it and written.
SweepResult run_sweep(const SweepOptions& options, SweepRecord& record);

// ---- what is shown of a result ----

// A row for the trials of each settings (train/sweep/rows.h): mean and standard deviation (n - 1) of their best. The best row first,
// of those that came as far; those without a number last.
std::string table(const SweepResult& result, const recipe::BestMetric& metric);
// A row for each trial.
std::string csv(const SweepResult& result, const recipe::BestMetric& metric);
// The metric over each key whose values are numbers; empty where there is none.
std::string plot(const SweepResult& result, const recipe::BestMetric& metric);
// How often training steps were compiled and loaded, what that saved, and for which runs they were compiled where those are several:
// "training steps: 1 compiled in 7.7 s, 5 loaded, which took 37 s less".
std::string compilations(const SweepResult& result);
// Of halving: "trained 4,312 of the 14,544 steps of all runs (30 %)".
std::string saving(const SweepResult& result, const HalvingRecord& halving);

}  // namespace tessera::sweep
