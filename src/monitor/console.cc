#include "monitor/console.h"

#include <fmt/core.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"

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

// Columns of UTF-8 text whose characters are all one column wide.
int columns(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut(std::string text, int width) {
  int seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xc0) != 0x80 && ++seen > width) return text.substr(0, i);
  }
  return text;
}

struct Position {
  std::string head;  // "e 3/10" or "step"
  int64_t done = 0, all = 0;
};

Position position_of(const StepLine& line) {
  if (line.epochs == 0) return {"step", line.step, line.steps};
  return {fmt::format("e {}/{}", line.epoch, line.epochs), line.step_in_epoch, line.steps_per_epoch};
}

// Four digits after the point, so that the columns of a log stay below each other; small and huge losses by exponent.
std::string loss_text(double loss) {
  const double size = std::abs(loss);
  return size >= 1e-3 && size < 1e4 ? fmt::format("{:.4f}", loss) : short_number(loss);
}

std::string figures(const StepLine& line) {
  std::string text = fmt::format("loss {}  lr {}  {:.{}f} img/s  wait {:.0f}%", loss_text(line.loss), short_number(line.lr),
                                 line.images_per_second, line.images_per_second < 10 ? 1 : 0, 100 * line.wait);
  if (!line.wait_for.empty()) text += fmt::format(" ({})", line.wait_for);
  if (line.memory_bytes) text += "  mem " + human_bytes(*line.memory_bytes);
  if (line.eta_seconds) text += "  ETA " + human_duration(*line.eta_seconds);
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
  return fmt::format("{} [{}/{}]  {}", position.head, position.done, position.all, figures(line));
}

std::string progress_text(const StepLine& line, int width, bool unicode) {
  const Position position = position_of(line);
  const std::string counts = fmt::format("{}/{}", position.done, position.all), rest = figures(line);
  const int used = columns(position.head) + columns(counts) + columns(rest) + 4;
  const int room = std::min(width - used, kLongestBar);
  if (room < kShortestBar) return cut(step_text(line), width);
  const double share = position.all > 0 ? static_cast<double>(position.done) / static_cast<double>(position.all) : 0;
  return fmt::format("{} {} {}  {}", position.head, bar(share, room, unicode), counts, rest);
}

std::string eval_text(const EvalLine& line) {
  std::string text = fmt::format("  {}", line.name);
  for (size_t i = 0; i < line.values.size(); ++i) {
    const auto& [name, value] = line.values[i];
    text += fmt::format("  {} {:.4g}", name, value);
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

void Console::step(const StepLine& line, bool log_now) {
  if (!options_.terminal) {
    if (log_now) options_.line(step_text(line));
    return;
  }
  const bool ends = line.epochs > 0 ? line.step_in_epoch == line.steps_per_epoch : log_now;
  if (ends) {
    options_.status({});
    options_.line(step_text(line));
    last_drawn_ = -1e9;
    return;
  }
  const double now = options_.clock();
  if (now - last_drawn_ < kRedrawSeconds) return;
  last_drawn_ = now;
  // The last column stays free: some terminals break the line when it is filled.
  options_.status(progress_text(line, options_.width() - 1, options_.unicode));
}

void Console::evaluation(const EvalLine& line) {
  finish();
  std::string text = printable(eval_text(line));
  if (line.best) {
    const size_t at = text.find(" best", 2 + printable(line.name).size()) + 1;
    text = text.substr(0, at) + styled("best", Style::kGreen) + text.substr(at + 4);
  }
  options_.line(text);
}

void Console::phase(std::string_view phase, std::string_view what, double seconds, std::string_view note) {
  finish();
  options_.line(printable(phase_text(phase, what, seconds, note)));
}

void Console::busy(std::string_view text) {
  if (options_.terminal) options_.status(cut(std::string(text), options_.width() - 1));
}

void Console::finish() {
  if (options_.terminal) options_.status({});
  last_drawn_ = -1e9;
}

}  // namespace tessera::monitor
