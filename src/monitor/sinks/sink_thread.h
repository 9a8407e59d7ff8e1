#pragma once
// A sink on a thread of its own, behind a queue of bounded length: whoever has something to tell never waits for it.

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "monitor/sinks/sink.h"

namespace tessera::monitor {

// How much may wait to be written; what comes then is lost.
struct SinkLimits {
  size_t records = 1024;
  size_t bytes = size_t{64} << 20;
};

class SinkThread {
 public:
  // Starts the thread, whose first work is sink->begin(start), tried again with each record until it succeeds. Where the system
  // has no thread to give, a warning says so, and everything is lost.
  SinkThread(std::string name, std::unique_ptr<Sink> sink, RunStart start, SinkLimits limits = {});
  // finish(), if nobody called it.
  ~SinkThread();
  SinkThread(const SinkThread&) = delete;
  SinkThread& operator=(const SinkThread&) = delete;

  // Never waits. The first record that is lost, because the sink is too slow or failed, is a warning.
  void put(std::shared_ptr<const Record> record);
  // Waits until all that was put is written, as long as something of it is written within each `patience`, and at most six times
  // as long; a thread that a disk holds is left behind. Says how much was lost altogether. put() may not follow.
  void finish(std::chrono::milliseconds patience = std::chrono::seconds(10));
  int64_t lost() const;

 private:
  struct Work;
  std::shared_ptr<Work> work_;  // the thread's too
  std::thread thread_;
};

}  // namespace tessera::monitor
