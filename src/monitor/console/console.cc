#include "monitor/console/console.h"

#include <fmt/core.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "monitor/console/terminal_text.h"

namespace tessera::monitor {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kDefaultWidth = 80;
constexpr int kShortestBar = 8, kLongestBar = 24;

int terminal_width() {
  winsize size{};
  if (ioctl(log_descriptor(), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultWidth;
  return size.ws_col;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value && *value) return std::strstr(value, "UTF-8") || std::strstr(value, "utf8");
  }
  return false;
}

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Position {
  std::string head;  // "e 3/10" or "step"
  int64_t done = 0, all = 0;
};

Position position_of(const StepLine& line) {
  if (line.epochs == 0) return {"step", line.step, line.steps};
  return {fmt::format("e {}/{}", line.epoch, line.epochs), line.step_in_epoch, line.steps_per_epoch};
}

// The figures of a line in its order, and how much each counts: what does not fit a terminal is left out from the highest rank
// on.
struct Figure {
  std::string text;
  int rank = 0;
};
constexpr int kBarRank = 3;

std::vector<Figure> figures(const StepLine& line) {
  std::vector<Figure> out = {{"loss " + loss_text(line.loss), 0}, {"lr " + short_number(line.lr), 5}};
  if (const auto rate = line.images_per_second) out.push_back({fmt::format("{:.{}f} img/s", *rate, *rate < 10 ? 1 : 0), 2});
  const std::string stage = line.wait_for.empty() ? "" : fmt::format(" ({})", line.wait_for);
  out.push_back({fmt::format("wait {:.0f}%{}", 100 * line.wait, stage), 4});
  if (line.memory_bytes) out.push_back({"mem " + human_bytes(*line.memory_bytes), 6});
  if (line.eta_seconds) out.push_back({"ETA " + human_duration(*line.eta_seconds), 1});
  return out;
}

// Those below `rank`, each after two blanks.
std::string joined(const std::vector<Figure>& all, int rank) {
  std::string text;
  for (const Figure& figure : all) {
    if (figure.rank < rank) text += "  " + figure.text;
  }
  return text;
}

std::string bar(double share, int width, bool unicode) {
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string text;
  for (int i = 0; i < width; ++i) {
    if (i < full) text += unicode ? "━" : "=";
    if (i == full) text += unicode ? "╸" : ">";
    if (i > full) text += unicode ? "─" : "-";
  }
  return text;
}

}  // namespace

std::string short_number(double value) {
  if (!std::isfinite(value) || value == 0) return fmt::format("{:g}", value);
  const double size = std::abs(value);
  if (size >= 1e-3 && size < 1e4) return fmt::format("{:.3g}", value);
  std::string text = fmt::format("{:.3g}", value);
  if (text.find('e') == std::string::npos) text = fmt::format("{:.2e}", value);
  const size_t e = text.find('e');
  std::string exponent = text.substr(e + 2);
  exponent.erase(0, std::min(exponent.find_first_not_of('0'), exponent.size() - 1));
  std::string mantissa = text.substr(0, e);
  if (mantissa.find('.') != std::string::npos) {
    mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  return mantissa + (text[e + 1] == '-' ? "e-" : "e") + exponent;
}

std::string step_text(const StepLine& line) {
  const Position position = position_of(line);
  return fmt::format("{} [{}/{}]{}", position.head, position.done, position.all, joined(figures(line), INT_MAX));
}

std::string progress_text(const StepLine& line, int width, bool unicode) {
  const Position position = position_of(line);
  const std::vector<Figure> all = figures(line);
  const std::string counts = fmt::format("{}/{}", position.done, position.all);
  constexpr int kAll = 7;
  for (int rank = kAll; rank > kBarRank; --rank) {
    const std::string rest = counts + joined(all, rank);
    const int room = std::min(width - columns_of(position.head) - columns_of(rest) - 2, kLongestBar);
    if (room < kShortestBar) continue;
    const double share = position.all > 0 ? static_cast<double>(position.done) / static_cast<double>(position.all) : 0;
    return fmt::format("{} {} {}", position.head, bar(share, room, unicode), rest);
  }
  for (int rank = kBarRank; rank > 0; --rank) {
    std::string text = fmt::format("{} [{}]{}", position.head, counts, joined(all, rank));
    if (columns_of(text) <= width) return text;
  }
  return cut_to(fmt::format("{} [{}]", position.head, counts), width);
}

std::string eval_text(const EvalLine& line) {
  std::string text = fmt::format("  {}  step {}", line.name, line.step);
  for (size_t i = 0; i < line.values.size(); ++i) {
    text += fmt::format("  {} {:.4g}", line.values[i].name, line.values[i].value);
    if (i == 0 && line.change) text += fmt::format(" ({:+.3g})", *line.change);
    if (i == 0 && line.best) text += " best";
  }
  return text;
}

std::string phase_text(std::string_view phase, std::string_view what, double seconds, std::string_view note) {
  const std::string time = seconds < 60 ? fmt::format("{:.{}f} s", seconds, seconds < 1 ? 2 : 1) : human_duration(seconds);
  return fmt::format("{:<8} {} {}{}", phase, what, time, note.empty() ? "" : fmt::format(" ({})", note));
}

Console::Options Console::standard() {
  const bool terminal = stderr_is_terminal();
  return {terminal, locale_is_utf8(), terminal_width, seconds_now, log_styled_line, log_status};
}

Console::Console(Options options) : options_(std::move(options)) {}

Console::~Console() { finish(); }

void Console::begin(bool epochs, int64_t steps, std::vector<ScoreColumn> scores) {
  if (!options_.terminal) return;
  scores_ = scores;
  table_.emplace(epochs, steps, std::move(scores));
  forget_row();
}

void Console::step(const StepLine& line, bool log_now) {
  if (!options_.terminal) {
    if (log_now) options_.line(step_text(line));
    return;
  }
  loss_sum_ += line.loss, ++losses_;
  const double now = options_.clock();
  if (now - last_drawn_ < kRedrawSeconds) return;
  last_drawn_ = now;
  // The last column stays free: some terminals break the line when it is filled.
  options_.status(progress_text(line, options_.width() - 1, options_.unicode));
}

void Console::evaluation(const EvalLine& line) {
  finish();
  if (table_) return keep(line);
  std::string text = printable(eval_text(line));
  if (line.best) {
    const size_t at = text.find(" best", 2 + printable(line.name).size()) + 1;
    text = text.substr(0, at) + styled("best", Style::kGreen) + text.substr(at + 4);
  }
  options_.line(text);
}

// For the row to come.
void Console::keep(const EvalLine& line) {
  for (size_t i = 0; i < line.values.size(); ++i) {
    const auto same = [&](const ScoreColumn& c) { return c.evaluator == line.name && c.score == line.values[i].name; };
    const auto column = static_cast<size_t>(std::ranges::find_if(scores_, same) - scores_.begin());
    if (column == scores_.size()) continue;
    row_.scores[column] = line.values[i].value;
    row_.best[column] = i == 0 && line.best;
  }
}

void Console::row(std::optional<double> epoch, int64_t step, std::optional<double> loss) {
  if (!table_) return;
  finish();
  row_.epoch = epoch, row_.step = step;
  row_.train_loss = losses_ > 0 ? loss_sum_ / static_cast<double>(losses_) : loss;
  row_.seconds = options_.clock() - row_began_;
  std::vector<size_t> columns = table_->fitting(options_.width() - 1);
  if (columns != columns_) {
    columns_ = std::move(columns);
    options_.line(styled(table_->header(columns_), Style::kBold));
  }
  options_.line(table_->row(row_, columns_));
  forget_row();
}

void Console::forget_row() {
  row_ = {};
  row_.scores.resize(scores_.size());
  row_.best.resize(scores_.size());
  loss_sum_ = 0, losses_ = 0;
  row_began_ = options_.clock();
}

void Console::phase(std::string_view phase, std::string_view what, double seconds, std::string_view note) {
  finish();
  options_.line(printable(phase_text(phase, what, seconds, note)));
}

void Console::busy(std::string_view text) {
  if (options_.terminal) options_.status(cut_to(text, options_.width() - 1));
}

void Console::finish() {
  if (options_.terminal) options_.status({});
  last_drawn_ = -1e9;
}

}  // namespace tessera::monitor
