#pragma once
// Scores of many checkpoints as a CSV file: a row a checkpoint, by run, step, weights and recipe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::inference {

// What a row is of. Two evaluations with the same are one row.
struct ScoredCheckpoint {
  std::string run;              // as the user named it
  std::optional<int64_t> step;  // nothing for weights that are no checkpoint of a run
  std::string weights;          // "raw" or "average"
  std::string recipe;           // and the keys that were set: "recipes/digits.toml eval.val.batch=64"

  auto operator<=>(const ScoredCheckpoint&) const = default;
};

using NamedValues = std::vector<std::pair<std::string, double>>;  // as in metrics.jsonl: "val/prec@1"

// The file is written anew, atomically, with each row that is added, so that whatever ends the program leaves it whole. Its first
// columns are run, step, weights and recipe; then comes one for each score, in the order in which they first came; a row without
// a score has nothing there.
class ScoreTable {
 public:
  // Reads the file where there is one. A data Error for one that is not written by this.
  explicit ScoreTable(std::string path);

  bool has(const ScoredCheckpoint& checkpoint) const { return rows_.contains(checkpoint); }
  void add(const ScoredCheckpoint& checkpoint, const NamedValues& scores);
  const std::string& path() const { return path_; }
  std::string text() const;

 private:
  std::string path_;
  std::vector<std::string> columns_;                                     // of scores
  std::map<ScoredCheckpoint, std::map<std::string, std::string>> rows_;  // values as they are written
};

}  // namespace tessera::inference
