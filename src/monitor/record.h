#pragma once
// What a run tells its sinks (monitor/sink.h), one thing at a time.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "monitor/metrics.h"

namespace tessera::monitor {

// A line of metrics.jsonl.
struct Scalars {
  std::vector<Metric> metrics;
};

// Markdown under a name: "recipe".
struct Text {
  std::string name, markdown;
};

struct Record {
  int64_t step = 0;
  double time = 0;  // seconds since 1970
  std::variant<Scalars, Text> content;

  // About what it takes in memory.
  size_t bytes() const;
};

}  // namespace tessera::monitor
