#pragma once
// <directory>/sweep.json: which sweep a directory is of, and what was decided in it. One that was ended at any moment goes on
// with the decisions that it had made. <directory>/sweep.toml: the recipe as it was when the sweep began, which the runs train,
// so that a recipe that is edited meanwhile changes none of them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera::sweep {

// A rung that all its trials have reached or failed at.
struct DecidedRung {
  struct Failure {
    Exit exit = Exit::kDevice;
    std::string problem;
  };
  std::vector<std::string> kept;          // directories of the trials that go on
  std::map<std::string, Failure> failed;  // in it
};

struct HalvingRecord {
  int64_t eta = 3;
  std::string min_budget, metric;                     // as the command gave them
  std::map<std::string, std::vector<int64_t>> steps;  // of each trial's directory: its rungs, the last one its end
  std::vector<DecidedRung> rungs;

  // Whether the other decides alike.
  bool same_plan(const HalvingRecord& other) const {
    return eta == other.eta && metric == other.metric && steps == other.steps;
  }
};

inline constexpr const char* kSweepRecipe = "sweep.toml";

struct SweepRecord {
  std::vector<std::string> words;  // of the command: the recipe and its keys
  std::string recipe;              // the text of that recipe; empty where an older version wrote none
  bool finished = false;
  std::optional<HalvingRecord> halving;
};

// Where the recipes differ: a line for each key, with both values. Comments and layout don't count.
std::string recipe_changes(const SweepRecord& before, const SweepRecord& now);

// Nothing where the directory has none. A data Error for a file that write_record() does not write.
std::optional<SweepRecord> read_record(const std::string& directory);
void write_record(const std::string& directory, const SweepRecord& record);

}  // namespace tessera::sweep
