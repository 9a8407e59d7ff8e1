#pragma once
// The event files of a run: one for each of its starts, events.out.tfevents.<number>.tessera, numbered from 1 on in ten digits,
// so that their order by name, in which TensorBoard reads them, is that of the starts.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "monitor/append_file.h"
#include "store/file.h"

namespace tessera::monitor {

// A file of events.
class EventFile {
 public:
  // `path` must not exist; its directory must.
  EventFile(const std::string& path, store::FileSystem& files) : file_(path, 0, files) {}
  // As AppendFile::add.
  void add(std::string_view event);

 private:
  AppendFile file_;
};

// What earlier starts left.
struct EarlierEvents {
  std::string next_path;           // of the file of this start
  std::set<int64_t> scalar_steps;  // of the events that are scalars, and kept
};

// Drops from the files in `directory` every event of a step after `kept_step`, the files of starts that came after it, what is
// of the run as a whole (each start writes it again), and what follows a damaged record; the rest stays byte for byte. Of `wanted` steps, ascending, those that have no scalars are
// missing: from the first of them on scalars are dropped too, so that they can be written again in their order. Files of other
// names are left alone.
EarlierEvents cut_event_files(store::FileSystem& files, const std::string& directory, int64_t kept_step,
                              const std::set<int64_t>& wanted);

}  // namespace tessera::monitor
