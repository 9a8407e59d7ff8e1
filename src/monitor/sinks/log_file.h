#pragma once
// The console's lines as a file, each after the time in UTC:
//
//   2026-11-23T06:42:00.123Z start    tessera 0.2.0 (1b1bbef20c4d): tessera train recipes/digits.toml
//   2026-11-23T06:42:00.871Z compile  train_step 0.08 s (cached)
//
// A message of several lines has the time before each. Starts of a run append to one file, which is nothing that a run repeats.

#include <chrono>
#include <memory>
#include <string>

#include "store/file.h"

namespace tessera::monitor {

// Hears every line that goes to the terminal (base/log.h) from its construction on; one at a time. A thread of its own writes
// them (monitor/sinks/sink_thread.h): a disk that refuses the file is a warning, and one that hangs holds nobody.
class LogFile {
 public:
  explicit LogFile(const std::string& first_line, store::FileSystem& files = store::local_files());
  // finish(), if nobody called it.
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Where the lines go, in a directory that is there; those heard before come first. Nothing when a file is open already.
  void open(const std::string& path);
  // A line that the terminal gets in another way.
  void add(const std::string& line);
  // Waits until everything is written, at most `patience`. Nothing is heard any more.
  void finish(std::chrono::milliseconds patience = std::chrono::seconds(5));

 private:
  struct Lines;
  std::shared_ptr<Lines> lines_;  // the listener's too
  store::FileSystem& files_;
};

}  // namespace tessera::monitor
