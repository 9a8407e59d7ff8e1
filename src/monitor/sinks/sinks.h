#pragma once
// The sinks of a run.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "monitor/sinks/sink_thread.h"

namespace tessera::monitor {

// Safe to use from several threads once it has begun.
class Sinks {
 public:
  // Starts those of these names, which must be known.
  void begin(const std::vector<std::string>& names, const RunStart& start, store::FileSystem& files = store::local_files());
  // For each of them, stamped with the time. Never waits.
  void put(int64_t step, RecordContent content);
  // The same at the last step that something was put for.
  void put(RecordContent content) { put(step_, std::move(content)); }
  // As SinkThread::finish.
  void finish();
  bool empty() const { return threads_.empty(); }

 private:
  std::atomic<int64_t> step_ = 0;
  std::vector<std::unique_ptr<SinkThread>> threads_;
};

// Seconds since 1970.
double time_now();

}  // namespace tessera::monitor
