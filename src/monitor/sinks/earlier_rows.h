#pragma once
// What a sink takes from metrics.jsonl when a run goes on.

#include <vector>

#include "monitor/metrics.h"
#include "monitor/sinks/sink.h"

namespace tessera::monitor {

// The lines up to start.kept_step: the file may have some of this start already.
std::vector<MetricRow> earlier_rows(const RunStart& start, store::FileSystem& files);
// When a line was written, in seconds since 1970, as its uptime tells.
double time_of(const MetricRow& row, const RunStart& start);

}  // namespace tessera::monitor
