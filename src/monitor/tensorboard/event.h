#pragma once
// TensorBoard's messages (tensorboard/compat/proto/event.proto, summary.proto) as bytes, and the little of them that is read
// back. Field numbers are named after the fields.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "monitor/record.h"

namespace tessera::monitor {

// What every event file begins with.
std::string version_event(double time);
// A start of the run: what a reader has of `step` and later steps is of an earlier start, and it drops it
// (SessionLog.START).
std::string start_event(double time, int64_t step);
// A record as one event. Empty where there is nothing in it that TensorBoard has a place for.
std::string record_event(const Record& record);

// An event as it was written.
struct EventFacts {
  int64_t step = 0;
  bool scalars = false;  // a line of metrics.jsonl
  bool start = false;    // start_event
  bool of_run = false;   // the run's graph or hyper-parameters, which TensorBoard takes once
};
// Nothing for bytes that are no event.
std::optional<EventFacts> read_event(std::string_view bytes);

}  // namespace tessera::monitor
