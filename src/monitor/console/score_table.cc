#include "monitor/console/score_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "monitor/console/console.h"
#include "monitor/console/terminal_text.h"

namespace tessera::monitor {
namespace {

constexpr int kGap = 2;
// Of the first score's name, so that the first four columns fit the narrowest terminal; and of others.
constexpr int kLongestName = 11, kLongerName = 20;
constexpr const char* kNothing = "-";

// "3", "2.5": at most two digits after the point, none of them for nothing, and as many as fit.
std::string epoch_text(double epoch, int width) {
  for (int digits = 2; digits >= 0; --digits) {
    std::string text = fmt::format("{:.{}f}", epoch, digits);
    if (digits > 0) text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    if (columns_of(text) <= width) return text;
  }
  return kNothing;
}

// Where it is too long, the evaluator's is cut.
std::string score_name(const ScoreColumn& score, int longest) {
  const std::string name = cut_to(one_line(score.score), longest - 2);
  return cut_to(one_line(score.evaluator), longest - columns_of(name) - 1) + " " + name;
}

}  // namespace

std::string loss_text(double loss) {
  const double size = std::abs(loss);
  return size >= 1e-3 && size < 1e4 ? fmt::format("{:.4f}", loss) : short_number(loss);
}

// Ranks: 0 epoch or step, 1 training loss, 2 first score, 3 time, then the first scores of further evaluators, then all others,
// and the step of a run that is counted in epochs.
ScoreTable::ScoreTable(bool epochs, int64_t steps, std::vector<ScoreColumn> scores)
    : epochs_(epochs), scores_(std::move(scores)) {
  if (epochs_) add("epoch", 5, 0);
  add("step", static_cast<int>(std::to_string(steps).size()), epochs_ ? 2000 : 0);
  loss_ = columns_.size();
  add("train loss", 7, 1);
  first_score_ = columns_.size();
  for (size_t i = 0; i < scores_.size(); ++i) {
    const bool main = i == 0 || scores_[i].evaluator != scores_[i - 1].evaluator;
    add(score_name(scores_[i], i == 0 ? kLongestName : kLongerName), 7, i == 0 ? 2 : (main ? 10 : 1000) + static_cast<int>(i));
  }
  add("time", 7, 3);
}

void ScoreTable::add(std::string name, int width, int rank) {
  const int least = columns_of(name);
  columns_.push_back({std::move(name), std::max(width, least), rank});
}

std::vector<size_t> ScoreTable::fitting(int width) const {
  std::vector<size_t> by_rank(columns_.size());
  for (size_t i = 0; i < by_rank.size(); ++i) by_rank[i] = i;
  std::ranges::stable_sort(by_rank, {}, [this](size_t i) { return columns_[i].rank; });
  std::vector<size_t> kept;
  int used = 0;
  for (const size_t i : by_rank) {
    used += columns_[i].width + (kept.empty() ? 0 : kGap);
    if (used > width && !kept.empty()) break;
    kept.push_back(i);
  }
  std::ranges::sort(kept);
  return kept;
}

std::string ScoreTable::header(const std::vector<size_t>& columns) const {
  std::string line;
  for (const size_t i : columns) line += pad_left(columns_[i].name, columns_[i].width + (line.empty() ? 0 : kGap));
  return line;
}

std::string ScoreTable::row(const TableRow& row, const std::vector<size_t>& columns) const {
  std::string line;
  for (const size_t i : columns) {
    const std::string text = cell(row, i);
    const int blanks = columns_[i].width - columns_of(text) + (line.empty() ? 0 : kGap);
    line.append(static_cast<size_t>(std::max(0, blanks)), ' ');
    const size_t score = i - first_score_;
    line += i >= first_score_ && score < row.best.size() && row.best[score] ? styled(text, Style::kGreen) : text;
  }
  return line;
}

// Not wider than its column, so that a row never is.
std::string ScoreTable::cell(const TableRow& row, size_t column) const {
  std::string text;
  if (column == 0 && epochs_) {
    text = row.epoch ? epoch_text(*row.epoch, columns_[column].width) : kNothing;
  } else if (column + 1 == loss_) {
    text = std::to_string(row.step);
  } else if (column == loss_) {
    text = row.train_loss ? loss_text(*row.train_loss) : kNothing;
  } else if (column + 1 == columns_.size()) {
    text = row.seconds < 100 * 3600 ? human_duration(row.seconds) : fmt::format("{:.0f} h", row.seconds / 3600);
  } else {
    const size_t score = column - first_score_;
    const std::optional<double> value = score < row.scores.size() ? row.scores[score] : std::nullopt;
    if (!value) return kNothing;
    text = scores_[score].share ? fmt::format("{:.2f}", *value) : loss_text(*value);
  }
  return cut_to(text, columns_[column].width);
}

}  // namespace tessera::monitor
