#include "base/log.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "base/line_listener.h"
#include "base/printable.h"
#include "base/warning_listener.h"

namespace tessera {
namespace {

std::atomic<ColorMode> g_mode{ColorMode::kAuto};
std::atomic<int> g_descriptor{STDERR_FILENO};

bool environment_allows_color() {
  if (const char* no = std::getenv("NO_COLOR"); no && *no) return false;
  if (const char* force = std::getenv("FORCE_COLOR"); force && *force) return true;
  const char* term = std::getenv("TERM");
  return stderr_is_terminal() && term && std::strcmp(term, "dumb") != 0;
}

const char* code(Style style) {
  switch (style) {
    case Style::kPlain: return "";
    case Style::kBold: return "\033[1m";
    case Style::kDim: return "\033[2m";
    case Style::kRed: return "\033[1;31m";
    case Style::kGreen: return "\033[32m";
    case Style::kYellow: return "\033[33m";
    case Style::kCyan: return "\033[36m";
  }
  return "";
}

}  // namespace

void set_color_mode(ColorMode mode) { g_mode = mode; }

bool stderr_is_terminal() { return isatty(g_descriptor) == 1; }

int log_descriptor() { return g_descriptor; }
void set_log_descriptor(int descriptor) { g_descriptor = descriptor; }

bool color_enabled() {
  const ColorMode mode = g_mode;
  if (mode == ColorMode::kAuto) {
    static const bool allowed = environment_allows_color();
    return allowed;
  }
  return mode == ColorMode::kAlways;
}

std::string styled(std::string_view text, Style style) {
  if (style == Style::kPlain || !color_enabled()) return std::string(text);
  return std::string(code(style)) + std::string(text) + "\033[0m";
}

namespace {

std::mutex g_mutex;
std::string g_status;
std::function<void(const std::string&)> g_listener, g_line_listener;
FinishLines g_finish_lines;

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(g_descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;  // nobody is left to tell
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

constexpr std::string_view kClearLine = "\r\033[K";

// Without what styled() put around its parts: printable() leaves no escape sequence of others.
std::string plain(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "\033[") {
      i = std::min(text.find('m', i), text.size());
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

namespace {

std::atomic<bool> g_quiet{false};

void show_line(std::string_view text, bool always) {
  std::function<void(const std::string&)> listener;
  {
    const std::lock_guard lock(g_mutex);
    if (always || !g_quiet)
      write_all(g_status.empty() ? fmt::format("{}\n", text) : fmt::format("{}{}\n{}", kClearLine, text, g_status));
    listener = g_line_listener;
  }
  if (listener) listener(plain(text));
}

}  // namespace

void set_quiet_log(bool quiet) { g_quiet = quiet; }

void log_styled_line(std::string_view text) { show_line(text, false); }

void log_status(std::string_view status) {
  if (g_quiet || !stderr_is_terminal()) return;
  const std::string text = one_line(status);
  const std::lock_guard lock(g_mutex);
  if (text == g_status) return;
  g_status = text;
  write_all(fmt::format("{}{}", kClearLine, text));
}

void log_line(std::string_view text) { log_styled_line(printable(text)); }
void log_note(std::string_view text) { log_styled_line(styled("note: ", Style::kCyan) + printable_message(text)); }
void log_warning(std::string_view text) {
  show_line(styled("warning: ", Style::kYellow) + printable_message(text), true);
  std::function<void(const std::string&)> listener;
  {
    const std::lock_guard lock(g_mutex);
    listener = g_listener;
  }
  if (listener) listener(std::string(text));
}
void log_error(std::string_view text) { show_line(styled("error: ", Style::kRed) + printable_message(text), true); }

namespace {

bool is_first(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> said;
  const std::lock_guard lock(mutex);
  return said.emplace(text).second;
}

}  // namespace

void log_note_once(std::string_view text) {
  if (is_first(text)) log_note(text);
}
void log_warning_once(std::string_view text) {
  if (is_first(text)) log_warning(text);
}
void log_error_once(std::string_view text) {
  if (is_first(text)) log_error(text);
}

void set_warning_listener(std::function<void(const std::string&)> listener) {
  const std::lock_guard lock(g_mutex);
  g_listener = std::move(listener);
}

void set_line_listener(std::function<void(const std::string&)> listener, FinishLines finish) {
  const std::lock_guard lock(g_mutex);
  g_line_listener = std::move(listener);
  g_finish_lines = std::move(finish);
}

void finish_lines(std::chrono::milliseconds patience) {
  FinishLines finish;
  {
    const std::lock_guard lock(g_mutex);
    finish = g_finish_lines;
  }
  if (finish) finish(patience);
}

}  // namespace tessera
