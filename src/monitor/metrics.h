#pragma once
// What a run measures, as files in its workdir:
//   metrics.jsonl  one JSON object a line, `step` first, the other keys in the order given;
//   summary.csv    one row a step with evaluations, with timm's column names for the recipe's first evaluator and a column for
//                  each score of the others.
// Both hold a run's whole history: a run that is resumed at step S first drops what came after S and then goes on, so that the
// file of a killed and resumed run is that of one never killed (times aside).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "monitor/line_log.h"
#include "store/file.h"

namespace tessera::monitor {

// Floating-point values are written with the fewest digits that read back as the same float or double. JSON has no NaN and no
// infinity: they are written as the strings "nan", "inf" and "-inf", which Python's float() and pandas.to_numeric() take.
using MetricValue = std::variant<int64_t, float, double, bool, std::string>;

struct Metric {
  std::string name;
  MetricValue value;
};

// The line of metrics.jsonl, without its end. `step` must not be among the metrics, and no name may come twice (our own bugs).
std::string metrics_line(int64_t step, const std::vector<Metric>& metrics);

// A row of summary.csv; what is not known stays empty.
struct SummaryRow {
  double epoch = 0;  // may have a fraction when an evaluation comes within an epoch
  std::optional<double> train_loss, eval_loss, eval_top1, eval_top5;  // top-1 and top-5 in per cent
  int64_t step = 0;
  // Further columns, before `step`: names and values as in metrics.jsonl. The names are the same in every row of a run.
  std::vector<std::pair<std::string, std::optional<double>>> more = {};
};
std::string summary_header(const SummaryRow& row = {});
std::string summary_line(const SummaryRow& row);

// Lines reach the operating system at once, so that they survive a kill. Safe to use from several threads.
class MetricWriter {
 public:
  // The workdir must exist; the files are made when the first line comes.
  explicit MetricWriter(const std::string& workdir, store::FileSystem& files = store::local_files());

  // Drops every line of a greater step, and a last line that was cut off; the rest stays byte for byte. Call it when a run goes
  // on from a checkpoint of `step`, and with -1 when it starts from the beginning.
  void truncate_after(int64_t step);

  void write(int64_t step, const std::vector<Metric>& metrics);
  void write_summary(const SummaryRow& row);

  // Makes everything written survive a power cut: before a checkpoint commits. Throws store::IoError.
  void flush();
  // Lines are waiting in memory because the disk refuses them (they are tried again with each new line).
  bool failing() const { return metrics_.failing() || summary_.failing(); }
  // Another program removed or changed a file meanwhile (a warning said so).
  bool disturbed() const { return metrics_.disturbed() || summary_.disturbed(); }

  const std::string& metrics_path() const { return metrics_.path(); }

 private:
  LineLog metrics_, summary_;
};

// A line of metrics.jsonl, numbers only ("nan" and "inf" included).
struct MetricRow {
  int64_t step = 0;
  std::map<std::string, double, std::less<>> values;
};
// Nothing for what is no whole JSON object with a step.
std::optional<MetricRow> parse_metrics_line(std::string_view line);
// The lines that can be read, in the order of the file; none when there is no file.
std::vector<MetricRow> read_metrics(const std::string& path, store::FileSystem& files = store::local_files());
// The same from the file's text. `unreadable`, where it is not null, goes up by the number of whole lines that are no metrics: the
// last line may be being written.
std::vector<MetricRow> parse_metrics(std::string_view text, int64_t* unreadable = nullptr);
// The last of them. Reads the end of the file alone.
std::optional<MetricRow> last_metrics(const std::string& path, store::FileSystem& files = store::local_files());

}  // namespace tessera::monitor
