#pragma once
// The programs that a run compiled or took from the cache: the lines "compile" of its log.txt (monitor/sinks/log_file.h).

#include <optional>
#include <string>
#include <string_view>

namespace tessera::board {

struct Compilation {
  std::string at;       // UTC, as the log has it: "2026-11-23T06:42:00.871Z"
  std::string program;  // "train_step"
  std::string took;     // "0.08 s", "1:13"
  std::string cause;    // "cached", "not in the cache", …
};

// Nothing where the line tells of no compilation.
std::optional<Compilation> parse_compilation(std::string_view line);

}  // namespace tessera::board
