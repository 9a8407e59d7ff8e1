#pragma once
// The error contract (docs/architecture.md, "Errors"):
//   what a user can cause    -> throw Error: one readable message and a defined exit code;
//   what has a second plan   -> a returned value (std::optional, std::expected-like struct), never an exception;
//   our own bug              -> TESSERA_CHECK, which stops loudly with exit code 1.

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>

namespace tessera {

// Exit codes of the program. They are part of the command-line contract.
enum class Exit : int {
  kDone = 0,
  kInternal = 1,      // our own bug; a crash file is written
  kUsage = 2,         // recipe or command line
  kData = 3,          // input files
  kDevice = 4,        // plugin, compilation, device memory
  kDiverged = 5,      // loss or gradient is not finite
  kPreempted = 75,    // SIGTERM after saving: start me again
  kInterrupted = 130  // Ctrl-C after saving
};

// A mistake that the user can mend. `what` says what was wrong, `where` names the place (recipe key and line, file, op with
// shapes and scope), `help` says what to do. `where` and `help` may be empty.
class Error : public std::exception {
 public:
  Error(Exit code, std::string what, std::string where = {}, std::string help = {})
      : code_(code), what_(std::move(what)), where_(std::move(where)), help_(std::move(help)) {
    text_ = what_;
    if (!where_.empty()) text_ += "\n  --> " + where_;
    if (!help_.empty()) text_ += "\nhelp: " + help_;
  }
  // The whole message: "what\n  --> where\nhelp: help".
  const char* what() const noexcept override { return text_.c_str(); }
  Exit code() const { return code_; }
  const std::string& message() const { return what_; }
  const std::string& where() const { return where_; }
  const std::string& help() const { return help_; }

 private:
  Exit code_;
  std::string what_, where_, help_, text_;
};

inline Error usage_error(std::string what, std::string where = {}, std::string help = {}) {
  return Error(Exit::kUsage, std::move(what), std::move(where), std::move(help));
}
inline Error data_error(std::string what, std::string where = {}, std::string help = {}) {
  return Error(Exit::kData, std::move(what), std::move(where), std::move(help));
}
inline Error device_error(std::string what, std::string where = {}, std::string help = {}) {
  return Error(Exit::kDevice, std::move(what), std::move(where), std::move(help));
}

// Thrown by TESSERA_CHECK: a bug of ours, never a user's mistake.
class InternalError : public std::exception {
 public:
  explicit InternalError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  throw InternalError(
      fmt::format("internal error at {}:{}: {}{}{}", file, line, condition, detail.empty() ? "" : ": ", detail));
}

}  // namespace tessera

// TESSERA_CHECK(condition) or TESSERA_CHECK(condition, "format {}", args...): our own invariants.
#define TESSERA_CHECK(condition, ...)                                                                         \
  do {                                                                                                        \
    if (!(condition)) ::tessera::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
