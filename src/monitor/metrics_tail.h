#pragma once
// Follows the metrics.jsonl of a run that another thread or process goes on with.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/metrics.h"
#include "store/file.h"

namespace tessera::monitor {

class MetricsTail {
 public:
  // There need be no file yet.
  explicit MetricsTail(std::string path, store::FileSystem& files = store::local_files());

  struct News {
    bool from_start = false;  // the file is another one, or was cut (a run was resumed): these are all its lines
    std::vector<MetricRow> rows;
  };
  // The whole lines that came since the last call. Throws what reading throws; the next call tries again.
  News read();

 private:
  // What was read: whole lines.
  struct Position {
    store::FileId id;
    int64_t offset = 0;
    std::string mark;  // the bytes right before it
  };
  bool goes_on(const store::FileInfo& info) const;
  static void take_lines(std::string_view text, Position& position, std::vector<MetricRow>& rows);

  std::string path_;
  store::FileSystem& files_;
  Position position_;
};

}  // namespace tessera::monitor
