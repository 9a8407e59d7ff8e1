// Event files for TensorBoard, in <workdir>/tb. A start of a run writes a file of its own (event_files.h), after the files of
// earlier starts were cut to where this one goes on. Steps of metrics.jsonl that they lack (a kill came first, the disk was full,
// or the sink was off) are written again from there, at the time that their uptime tells.

#include <optional>
#include <set>

#include "monitor/sinks/earlier_rows.h"
#include "monitor/sinks/sink.h"
#include "monitor/tensorboard/event.h"
#include "monitor/tensorboard/event_files.h"
#include "monitor/tensorboard/projector.h"

namespace tessera::monitor {
namespace {

class Tensorboard final : public Sink {
 public:
  explicit Tensorboard(store::FileSystem& files) : files_(files) {}

  void begin(const RunStart& start) override {
    const std::string directory = store::join_path(start.workdir, "tb");
    files_.make_directories(directory);
    const std::vector<MetricRow> rows = earlier_rows(start, files_);
    std::set<int64_t> steps;
    for (const MetricRow& row : rows) steps.insert(row.step);
    const EarlierEvents earlier = cut_event_files(files_, directory, start.kept_step, steps);
    cut_projector(files_, directory, start.kept_step);
    directory_ = directory;
    file_.emplace(earlier.next_path, files_);
    file_->add(version_event(start.time));
    file_->add(start_event(start.time, start.kept_step + 1));
    for (const MetricRow& row : rows) {
      if (!earlier.scalar_steps.contains(row.step)) write(as_record(row, start));
    }
  }

  void write(const Record& record) override {
    if (const auto* embedding = std::get_if<Embedding>(&record.content)) {
      return write_projector(files_, directory_, record.step, *embedding);
    }
    const std::string event = record_event(record);
    if (!event.empty()) file_->add(event);
  }

 private:
  static Record as_record(const MetricRow& row, const RunStart& start) {
    Record record{row.step, time_of(row, start), {}};
    Scalars scalars;
    for (const auto& [name, value] : row.values) {
      if (name != "step") scalars.metrics.push_back({name, value});
    }
    record.content = std::move(scalars);
    return record;
  }

  store::FileSystem& files_;
  std::string directory_;
  std::optional<EventFile> file_;
};

}  // namespace

const SinkKind kTensorboard = {
    "tensorboard", "event files in <workdir>/tb, which TensorBoard shows",
    [](store::FileSystem& files) -> std::unique_ptr<Sink> { return std::make_unique<Tensorboard>(files); }};

}  // namespace tessera::monitor
