#include <limits>

#include "base/text/json.h"
#include "fuzz/targets.h"
#include "monitor/mlflow/answers.h"
#include "monitor/process_figures.h"
#include "monitor/tensorboard/event.h"
#include "monitor/tensorboard/event_files.h"
#include "monitor/wandb/record_log.h"
#include "monitor/wandb/run_file.h"
#include "store/memory_files.h"

namespace tessera::fuzz {
namespace {

// An event file of an earlier start, cut to each of some steps; what is left is then left alone.
bool events(std::string_view bytes) {
  bool kept = false;
  for (const int64_t step : {int64_t{5}, int64_t{0}, int64_t{-1}}) {
    testing::MemoryFiles files;
    const std::string path = "tb/events.out.tfevents.0000000007.tessera";
    files.make_directories("tb");
    store::write_atomic(files, path, bytes);
    const monitor::EarlierEvents cut = monitor::cut_event_files(files, "tb", step, {});
    TESSERA_CHECK(cut.next_path == "tb/events.out.tfevents.0000000008.tessera");
    if (!files.info(path)) continue;
    const std::string text = store::read_text(files, path);
    TESSERA_CHECK(text.size() <= bytes.size());
    monitor::cut_event_files(files, "tb", step, cut.scalar_steps);
    TESSERA_CHECK(store::read_text(files, path) == text);
    kept = true;
  }
  return kept;
}

// One event, without its frame.
bool event(std::string_view bytes) { return monitor::read_event(bytes).has_value(); }

// hosts.json, whose parts come from the other processes. What is read is written the same again, and can be told.
bool host_figures(std::string_view bytes) {
  return parses([&] {
    const monitor::HostFigures figures = monitor::parse_host_figures(bytes, "fuzz");
    const std::string written = monitor::to_json(figures);
    TESSERA_CHECK(monitor::to_json(monitor::parse_host_figures(written, "fuzz")) == written);
    for (const monitor::ProcessFigures& one : figures.processes) {
      TESSERA_CHECK(monitor::parse_process_figures(monitor::to_json(one), "fuzz").process == one.process);
    }
    if (const auto slowest = monitor::slowest_process(figures.processes)) TESSERA_CHECK(!monitor::in_words(*slowest).empty());
    TESSERA_CHECK(monitor::hanging_processes(figures).size() <= figures.processes.size());
    TESSERA_CHECK(monitor::silent_processes(figures, figures.at).size() <= figures.processes.size());
    return true;
  });
}

// A record of a run-<id>.wandb that an earlier start left, in a file with its checksum; and the bytes as such a file. What stays
// of it is whole.
bool wandb(std::string_view bytes) {
  return parses([&] {
    std::string file = monitor::record_log_header();
    monitor::add_log_record(file, static_cast<int64_t>(file.size()), bytes);
    const std::vector<monitor::MetricRow> none;
    monitor::RunStart start;
    start.kept_step = std::numeric_limits<int64_t>::max();
    for (const std::string_view earlier : {std::string_view(file), bytes}) {
      monitor::WandbFrames frames;
      std::string kept = frames.header();
      size_t parts = 0, records = 0;
      monitor::write_earlier_rows(start, none, earlier, frames, [&](const std::string& part) {
        kept += part;
        ++parts;
      });
      TESSERA_CHECK(frames.offset() == static_cast<int64_t>(kept.size()));
      monitor::RecordLogReader reader(kept);
      while (reader.next()) ++records;
      TESSERA_CHECK(records >= parts);  // a row is two
      static_cast<void>(monitor::wandb_start_time(earlier));
    }
    return !std::holds_alternative<std::monostate>(monitor::read_wandb_record(bytes));
  });
}

// An answer of MLflow's server, whatever was asked.
bool mlflow(std::string_view bytes) {
  const JsonResult read = read_json(bytes);
  monitor::mlflow_has_none(404, read.value);
  const auto reads = [&](const char* place) {
    return parses([&] {
      monitor::mlflow_text_at(read.value, nlohmann::json::json_pointer(place));
      return true;
    });
  };
  bool any = reads("/experiment/experiment_id");
  any |= reads("/run/info/run_id");
  any |= parses([&] { return monitor::mlflow_run(read.value, "id").id == "id"; });
  any |= parses([&] {
    const monitor::MlflowPointPage page = monitor::mlflow_points(read.value);
    return !page.points.empty() || !page.next.empty();
  });
  return any;
}

}  // namespace

const std::vector<NamedTarget>& monitor_targets() {
  static const std::vector<NamedTarget> all = {{"event", event, 1024},
                                               {"events", events, 4096},
                                               {"host_figures", host_figures, 1024},
                                               {"wandb", wandb, 1024},
                                               {"mlflow", mlflow, 512}};
  return all;
}

}  // namespace tessera::fuzz
