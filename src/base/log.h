#pragma once
// Messages to the person at the terminal: always stderr (results go to stdout). Colour follows NO_COLOR, FORCE_COLOR, TERM=dumb
// and the --color flag. Thread-safe; a line is written whole. Nothing else in the program writes to stderr: the descriptor
// below may be another one than 2, which is then where a plugin's own noise goes (pjrt/plugin/stderr_filter.h).

#include <string>
#include <string_view>

namespace tessera {

enum class ColorMode { kAuto, kAlways, kNever };
void set_color_mode(ColorMode mode);
bool color_enabled();
bool stderr_is_terminal();

// Of what follows only warnings and errors are shown at the terminal; listeners (base/line_listener.h) still hear all.
void set_quiet_log(bool quiet);

// The descriptor that messages are written to: 2 until set otherwise.
int log_descriptor();
void set_log_descriptor(int descriptor);

enum class Style { kPlain, kBold, kDim, kRed, kGreen, kYellow, kCyan };
// Wraps text in the style's escape codes when colour is enabled.
std::string styled(std::string_view text, Style style);

// What is written may hold names of files and classes, so that all but our own colours goes through printable(), and notes,
// warnings and errors through printable_message() (base/printable.h); line ends in a name are for one_line().
void log_styled_line(std::string_view text);  // as it is: what others wrote in it was made printable before styled()
void log_line(std::string_view text);
void log_note(std::string_view text);     // "note: …"
void log_warning(std::string_view text);  // "warning: …"
void log_error(std::string_view text);    // "error: …", further lines indented as given
// The first time in this process that there is such a text. Training, evaluators and the report open the same files. One of
// several processes shows its error before the others hear of it, and may be ended by what started them before main() shows it.
void log_note_once(std::string_view text);
void log_warning_once(std::string_view text);
void log_error_once(std::string_view text);

// The status line: one line at the bottom of a terminal, replaced by the next call; messages appear above it. Empty text
// removes it. `text` is one line and must fit the terminal's width. Does nothing when messages don't go to a terminal.
void log_status(std::string_view text);

}  // namespace tessera
