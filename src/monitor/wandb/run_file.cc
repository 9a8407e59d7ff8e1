#include "monitor/wandb/run_file.h"

#include <iterator>
#include <limits>
#include <utility>

#include "monitor/sinks/earlier_rows.h"
#include "monitor/wandb/record_log.h"
#include "monitor/wandb/values.h"

namespace tessera::monitor {
namespace {

const std::string* find(const WandbItems& items, std::string_view key) {
  for (const auto& [name, json] : items) {
    if (name == key) return &json;
  }
  return nullptr;
}

class EarlierRows {
 public:
  using Put = std::function<void(const std::string& bytes)>;
  EarlierRows(const RunStart& start, const std::vector<MetricRow>& rows, WandbFrames& frames, const Put& put)
      : start_(start), rows_(rows), frames_(frames), put_(put) {}

  void write(std::string_view file) {
    RecordLogReader reader(file);
    while (const std::optional<std::string> record = reader.next()) {
      const WandbKept kept = read_wandb_record(*record);
      if (const auto* other = std::get_if<WandbOther>(&kept)) put_(frames_.frame(other->content));
      const auto* row = std::get_if<WandbRow>(&kept);
      if (!row) continue;
      if (row->step > start_.kept_step) break;
      write_before(row->step);
      write_row(*row);
    }
    write_before(std::numeric_limits<int64_t>::max());
  }

 private:
  void write_before(int64_t step) {
    for (; next_ < rows_.size() && rows_[next_].step < step; ++next_) write_line(rows_[next_], nullptr, {});
  }
  void write_row(const WandbRow& row) {
    WandbItems media;
    for (const auto& item : row.items) {
      if (is_wandb_media(item.second)) media.push_back(item);
    }
    const std::string* time = find(row.items, "_timestamp");
    if (next_ < rows_.size() && rows_[next_].step == row.step) return write_line(rows_[next_++], time, std::move(media));
    if (media.empty() || !time) return;
    put_(frames_.row(row.step, std::move(media), *time, start_.uptime));
  }
  void write_line(const MetricRow& line, const std::string* time, WandbItems media) {
    WandbItems items = wandb_items(line);
    items.insert(items.end(), std::make_move_iterator(media.begin()), std::make_move_iterator(media.end()));
    const auto uptime = line.values.find("uptime");
    put_(frames_.row(line.step, std::move(items), time ? *time : wandb_json(time_of(line, start_)),
                     uptime == line.values.end() ? start_.uptime : uptime->second));
  }

  const RunStart& start_;
  const std::vector<MetricRow>& rows_;
  size_t next_ = 0;
  WandbFrames& frames_;
  const Put& put_;
};

}  // namespace

std::string WandbFrames::header() {
  offset_ = static_cast<int64_t>(record_log_header().size());
  number_ = 0;
  return record_log_header();
}

std::string WandbFrames::frame(std::string_view content) {
  std::string out;
  add_log_record(out, offset_, wandb_record(++number_, content));
  offset_ += static_cast<int64_t>(out.size());
  return out;
}

std::string WandbFrames::row(int64_t step, WandbItems items, const std::string& time, double runtime) {
  items.emplace_back("_timestamp", time);
  items.emplace_back("_runtime", wandb_json(runtime));
  items.emplace_back("_step", std::to_string(step));
  const std::string summary = frame(wandb_summary(items, runtime));
  return summary + frame(wandb_history(step, items));
}

std::optional<double> wandb_start_time(std::string_view file) {
  RecordLogReader reader(file);
  while (const std::optional<std::string> record = reader.next()) {
    const WandbKept kept = read_wandb_record(*record);
    if (const auto* start = std::get_if<WandbStart>(&kept)) return start->time;
  }
  return std::nullopt;
}

void write_earlier_rows(const RunStart& start, const std::vector<MetricRow>& rows, std::string_view file, WandbFrames& frames,
                        const std::function<void(const std::string& bytes)>& put) {
  EarlierRows(start, rows, frames, put).write(file);
}

}  // namespace tessera::monitor
