#pragma once
// The file of a W&B run.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/metrics.h"
#include "monitor/sinks/sink.h"
#include "monitor/wandb/records.h"

namespace tessera::monitor {

// A file while it is written: numbers its records and knows where the next one lies. A copy is where it was.
class WandbFrames {
 public:
  int64_t offset() const { return offset_; }
  // What comes first.
  std::string header();
  // A record of this content, as the file has it.
  std::string frame(std::string_view content);
  // A row of the history, and what it makes of the summary. `time` as JSON, `runtime` in seconds.
  std::string row(int64_t step, WandbItems items, const std::string& time, double runtime);

 private:
  int64_t offset_ = 0, number_ = 0;
};

// When the first start of the run was, as its file says.
std::optional<double> wandb_start_time(std::string_view file);

// What earlier starts leave of steps up to start.kept_step, in the order of steps: `rows`, which are metrics.jsonl's, each with the
// images and histograms that `file`, the run's as it was, has of the step; and its uploads and console lines.
void write_earlier_rows(const RunStart& start, const std::vector<MetricRow>& rows, std::string_view file, WandbFrames& frames,
                        const std::function<void(const std::string& bytes)>& put);

}  // namespace tessera::monitor
