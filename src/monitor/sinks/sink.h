#pragma once
// Sinks: where a run's measurements go besides metrics.jsonl. A sink is a file and a line of sinks.def.
//
// metrics.jsonl (monitor/metrics.h) is the record of a run: durable before each checkpoint, and cut when a run is resumed. A sink
// is a copy of it for other programs, which may be incomplete: it has a thread of its own (monitor/sinks/sink_thread.h), so that it
// never slows a step, and what it throws is a warning, so that it never ends a run.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "monitor/record.h"
#include "store/file.h"

namespace tessera::monitor {

// A start of a run.
struct RunStart {
  std::string workdir;
  // Everything of later steps is to be dropped: what metrics.jsonl was cut to. -1: the run starts from the beginning.
  int64_t kept_step = -1;
  double time = 0;                         // now, in seconds since 1970
  double uptime = 0;                       // seconds that the run took until now, of all its starts
  std::string command = {}, version = {};  // of the program; may be empty
};

// All functions are called on one thread, begin() first. Whatever one throws is a warning, and the record is lost;
// a failed check of ours (InternalError) ends the program.
class Sink {
 public:
  virtual ~Sink() = default;
  // Brings what earlier starts wrote to the end of RunStart::kept_step. May read metrics.jsonl.
  virtual void begin(const RunStart& start) = 0;
  virtual void write(const Record& record) = 0;
  // How a warning that it fails or is too slow ends.
  virtual const char* when_it_fails() const { return "the run goes on, and metrics.jsonl has its figures"; }
};

// What `monitor.sinks` of a recipe names.
struct SinkKind {
  const char* name;
  const char* help;
  std::unique_ptr<Sink> (*make)(store::FileSystem& files);
};
#define SINK(object) extern const SinkKind object;
#include "monitor/sinks/sinks.def"
#undef SINK

// By sinks.def, in its order.
const std::vector<const SinkKind*>& sink_kinds();
std::vector<std::string> sink_names();
// Nothing for a name that is not known.
const SinkKind* find_sink(const std::string& name);

}  // namespace tessera::monitor
