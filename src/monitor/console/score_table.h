#pragma once
// The table of a run on a terminal, one row an epoch or evaluation, as texts of at most a terminal's width:
//
//   epoch  step  train loss  val top1  val loss    time
//       1    45      2.1304     76.94    0.6930   0.9 s
//       2    90      0.9121     92.78    0.2931   0.8 s

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::monitor {

// Of an evaluator, a column of the table.
struct ScoreColumn {
  std::string evaluator, score;  // "val", "top1"
  bool share = false;            // in per cent; else a number as it is
};

struct TableRow {
  std::optional<double> epoch;  // nothing: the run is not counted in epochs
  int64_t step = 0;
  std::optional<double> train_loss;           // nothing before the first step
  std::vector<std::optional<double>> scores;  // as many as there are columns; nothing where an evaluator was not due
  std::vector<bool> best = {};                // those that are to stand out; empty: none
  double seconds = 0;                         // since the row before
};

class ScoreTable {
 public:
  // In the order of the table. The first column of each evaluator counts more than its others, and evaluators that come first
  // more than those that follow.
  ScoreTable(bool epochs, int64_t steps, std::vector<ScoreColumn> scores);

  // The columns that fit `width`, which are fewer the narrower it is: epoch (or step), training loss, first score and time stay
  // at any width from 40 on.
  std::vector<size_t> fitting(int width) const;
  // Lines of these columns, names made printable, best scores in colour (base/log.h).
  std::string header(const std::vector<size_t>& columns) const;
  std::string row(const TableRow& row, const std::vector<size_t>& columns) const;

 private:
  struct Column {
    std::string name;
    int width = 0;
    int rank = 0;  // the lowest is left out last
  };
  void add(std::string name, int width, int rank);
  std::string cell(const TableRow& row, size_t column) const;

  bool epochs_;
  std::vector<ScoreColumn> scores_;
  size_t first_score_ = 0, loss_ = 0;  // places among the columns
  std::vector<Column> columns_;
};

// Four digits after the point, so that the columns of a log stay below each other; small and huge losses by exponent.
std::string loss_text(double loss);

}  // namespace tessera::monitor
