#include "monitor/sinks/earlier_rows.h"

namespace tessera::monitor {

std::vector<MetricRow> earlier_rows(const RunStart& start, store::FileSystem& files) {
  if (start.kept_step < 0) return {};
  std::vector<MetricRow> rows = read_metrics(store::join_path(start.workdir, "metrics.jsonl"), files);
  std::erase_if(rows, [&](const MetricRow& row) { return row.step > start.kept_step; });
  return rows;
}

double time_of(const MetricRow& row, const RunStart& start) {
  const auto uptime = row.values.find("uptime");
  return uptime == row.values.end() ? start.time : start.time - start.uptime + uptime->second;
}

}  // namespace tessera::monitor
