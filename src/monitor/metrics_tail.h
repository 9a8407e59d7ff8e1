#pragma once
// Follows files to which another thread or process appends lines: metrics.jsonl and log.txt of a run that goes on.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "monitor/metrics.h"
#include "store/file.h"

namespace tessera::monitor {

class LineTail {
 public:
  // There need be no file yet.
  explicit LineTail(std::string path, store::FileSystem& files = store::local_files());

  // Calls `take` with each whole line that came since the last call, without its end. True when the file is another one, or was
  // cut (a run was resumed): then these are all its lines. Throws what reading throws; the next call tries again.
  bool read(const std::function<void(std::string_view line)>& take);

 private:
  // What was read: whole lines.
  struct Position {
    store::FileId id;
    int64_t offset = 0;
    std::string mark;  // the bytes right before it
  };
  bool goes_on(const store::FileInfo& info) const;
  static void take_lines(std::string_view text, Position& position, const std::function<void(std::string_view)>& take);

  std::string path_;
  store::FileSystem& files_;
  Position position_;
};

class MetricsTail {
 public:
  explicit MetricsTail(std::string path, store::FileSystem& files = store::local_files()) : tail_(std::move(path), files) {}

  struct News {
    bool from_start = false;  // these are all its lines
    std::vector<MetricRow> rows;
    int64_t unreadable = 0;  // lines that are none of metrics
  };
  // Of the lines that LineTail::read() gives, those of metrics.
  News read();

 private:
  LineTail tail_;
};

}  // namespace tessera::monitor
