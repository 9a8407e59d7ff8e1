// W&B's offline runs: <workdir>/wandb/offline-run-<time>-<id>, which `wandb sync` uploads. A run has one directory and one id,
// however often it is started: a start writes run-<id>.wandb anew, with the rows of metrics.jsonl up to where it goes on and,
// from the file as it was, the images and histograms of those steps, and goes on from there. So the file is that of a run which
// never stopped.

#include <iterator>
#include <optional>
#include <utility>

#include "base/log.h"
#include "image/codec/png.h"
#include "monitor/append_file.h"
#include "monitor/sinks/earlier_rows.h"
#include "monitor/sinks/sink.h"
#include "monitor/wandb/place.h"
#include "monitor/wandb/run_file.h"
#include "monitor/wandb/values.h"

namespace tessera::monitor {
namespace {

class Wandb final : public Sink {
 public:
  explicit Wandb(store::FileSystem& files) : files_(files) {}

  void begin(const RunStart& start) override {
    start_ = start;
    const WandbPlace place = wandb_place(files_, start);
    directory_ = place.directory;
    files_.make_directories(store::join_path(directory_, "files"));
    const std::string path = place.file();
    // A mark of `wandb sync`, which passes over what has it.
    if (files_.info(path + ".synced")) files_.remove_file(path + ".synced");
    rewrite(path, place);
    file_.emplace(path, frames_.offset(), files_);
  }

  void write(const Record& record) override {
    std::visit([&](const auto& content) { add(record, content); }, record.content);
  }

 private:
  void rewrite(const std::string& path, const WandbPlace& place) {
    store::Bytes old;
    if (start_.kept_step >= 0 && place.known) old = files_.map(path);
    WandbRun run = wandb_run_of(start_, place.id);
    if (const auto time = wandb_start_time(store::as_text(old.data))) run.start_time = *time;
    store::write_atomic(files_, path, [&](const std::string& temporary) {
      const auto out = files_.create(temporary);
      const auto put = [&](const std::string& bytes) { out->write(store::as_bytes(bytes)); };
      put(frames_.header());
      put(frames_.frame(wandb_header(run.version)));
      put(frames_.frame(wandb_run(run)));
      put(frames_.frame(wandb_environment(run)));
      write_earlier_rows(start_, earlier_rows(start_, files_), store::as_text(old.data), frames_, put);
      out->sync();
      out->close();
    });
    if (!old.readable())
      log_warning(
          fmt::format("`{}` can't be read to its end: W&B's images and histograms there are lost, and its figures are written "
                      "again",
                      path));
  }

  double runtime_at(const Record& record) const { return start_.uptime + record.time - start_.time; }

  void add(const Record& record, const Scalars& scalars) { add_to_row(record, wandb_items(scalars)); }
  void add(const Record& record, const Histograms& histograms) {
    WandbItems items;
    for (const Histogram& histogram : histograms.histograms) items.emplace_back(histogram.name, wandb_json(histogram));
    add_to_row(record, std::move(items));
  }
  void add(const Record& record, const Images& images) {
    if (images.images.empty()) return;
    std::vector<std::string> paths;
    for (const image::Image& image : images.images) {
      const std::string path = fmt::format("media/images/{}_{}_{}.png", wandb_plain(images.name), record.step, paths.size());
      const std::vector<uint8_t> png = image::encode_png(image.view());
      add_file(path, {reinterpret_cast<const char*>(png.data()), png.size()});
      paths.push_back(path);
    }
    add_to_row(record, {{images.name, wandb_json(images, paths)}});
  }
  void add(const Record& record, const Text& text) {
    if (text.name == "warnings") return add_other(wandb_output(record.time, "warning: " + text.markdown + "\n"));
    add_file(wandb_plain(text.name) + ".md", text.markdown);
  }
  void add(const Record&, const HyperParameters& parameters) {
    WandbItems items;
    for (const auto& [key, value] : parameters.values) items.emplace_back(key, wandb_json(value));
    add_other(wandb_config(items));
  }
  // TensorFlow's graphs and TensorBoard's projector are nothing that W&B shows.
  void add(const Record&, const ModelGraph&) {}
  void add(const Record&, const Embedding&) {}
  void add(const Record& record, const RunEnd& end) {
    // Ctrl-C is meant to end it; the other signals are a machine's.
    if (end.ending == Ending::kStopped && end.exit_code == static_cast<int>(Exit::kPreempted)) add_other(wandb_preempting());
    add_other(wandb_exit(end.exit_code, runtime_at(record)));
  }

  void add_file(const std::string& path, std::string_view content) {
    const std::string full = store::join_path(directory_, "files/" + path);
    files_.make_directories(store::parent_path(full));
    store::write_atomic(files_, full, content);
    add_other(wandb_file(path));
  }

  void add_other(const std::string& content) {
    append([&] { return frames_.frame(content); });
    if (row_) row_->others.push_back(content);
  }

  // W&B has one row a step. So a row that is added to is written again in its place, with what was written since before it.
  void add_to_row(const Record& record, WandbItems items) {
    if (items.empty()) return;
    Row row{record.step, frames_, {}, {}};
    if (row_ && row_->step == record.step) {
      row.items = std::move(row_->items);
      file_->cut(row_->before.offset());
      frames_ = row_->before;
      const std::vector<std::string> others = std::move(row_->others);
      row_.reset();
      for (const std::string& other : others) add_other(other);
      row.before = frames_;
    }
    row_.reset();
    row.items.insert(row.items.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
    append([&] { return frames_.row(row.step, row.items, wandb_json(record.time), runtime_at(record)); });
    row_ = std::move(row);
  }

  template <class Frame>
  void append(Frame&& frame) {
    const WandbFrames before = frames_;
    const std::string bytes = frame();
    try {
      file_->add(bytes);
    } catch (...) {
      frames_ = before;
      throw;
    }
  }

  struct Row {
    int64_t step = 0;
    WandbFrames before;  // as it was when the row began
    WandbItems items;
    std::vector<std::string> others;  // records that came since
  };

  store::FileSystem& files_;
  RunStart start_;
  std::string directory_;
  WandbFrames frames_;
  std::optional<AppendFile> file_;
  std::optional<Row> row_;  // the last one
};

}  // namespace

const SinkKind kWandb = {"wandb", "an offline run of W&B in <workdir>/wandb, which `wandb sync` uploads",
                         [](store::FileSystem& files) -> std::unique_ptr<Sink> { return std::make_unique<Wandb>(files); }};

}  // namespace tessera::monitor
