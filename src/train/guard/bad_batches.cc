#include "train/guard/bad_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text/json.h"
#include "checkpoint/commit.h"
#include "image/codec/png.h"
#include "image/draw.h"
#include "store/file.h"

namespace tessera::train {
namespace {

constexpr const char* kFolder = "bad_batches";
constexpr int64_t kMaxRows = 256;  // of pictures

// The class of a row, or, of a multi-label source, the list of them.
void add_labels(nlohmann::ordered_json& row, const data::Batch& batch, int64_t i, const std::vector<std::string>& classes) {
  if (const int64_t count = batch.multi_hot_classes(); count > 0) {
    nlohmann::ordered_json labels = nlohmann::ordered_json::array();
    for (int64_t c = 0; c < count; ++c) {
      if (batch.multi_hot()[i * count + c] != 0) labels.push_back(classes.at(static_cast<size_t>(c)));
    }
    row["labels"] = std::move(labels);
  } else if (const auto label = static_cast<size_t>(batch.labels()[i]); label < classes.size()) {
    row["label"] = classes[label];
  }
}

nlohmann::ordered_json rows_of(const recipe::Recipe& recipe, const data::Batch& batch) {
  const bool labels = recipe.objective->inputs().labels;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < batch.rows(); ++i) {
    nlohmann::ordered_json row{{"row", i}};
    if (batch.samples()[i] >= 0) {
      const data::DataSet& set = recipe.data.sets[static_cast<size_t>(batch.sets()[i])];
      row["id"] = set.source->id(batch.samples()[i]);
      if (labels) add_labels(row, batch, i, recipe.class_names);
      if (recipe.data.sets.size() > 1) row["set"] = set.name;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void remove_oldest(const std::string& folder) {
  store::FileSystem& files = store::local_files();
  std::vector<int64_t> steps;
  for (const store::FileInfo& entry : files.list(folder)) {
    const auto name = checkpoint::parse_directory_name(entry.name);
    if (name && !name->writer && entry.directory && !entry.symlink) steps.push_back(name->step);
  }
  std::ranges::sort(steps);
  for (size_t i = 0; i + kBadBatches < steps.size(); ++i)
    store::remove_tree(files, store::join_path(folder, checkpoint::step_directory(steps[i])));
}

}  // namespace

float measurement(const state::StepMetrics& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &state::StepMetric::name);
  return found == metrics.end() ? 0 : found->value;
}

std::string why_skipped(const state::StepMetrics& metrics) {
  for (const state::StepMetric& metric : metrics) {
    if (!std::isfinite(metric.value))
      return fmt::format("{} is {}", metric.name, json_of_float(metric.value).get<std::string>());
  }
  const float norm = measurement(metrics, "l2_grads"), average = measurement(metrics, "l2_grads_average");
  return fmt::format("l2_grads is {:.4g}, {:.3g} times its average", norm, norm / average);
}

std::string keep_bad_batch(const recipe::Recipe& recipe, const std::string& workdir, const BadBatch& bad,
                           const data::StopWaiting& stop) {
  data::LoaderOptions options = recipe.data.loader(recipe.batch, static_cast<uint64_t>(recipe.run.seed));
  options.start_batch = bad.step - 1;
  options.prefetch = 1;
  data::TrainLoader loader(recipe.data.sets, options);
  if (!loader.wait(stop)) return {};
  const data::Batch batch = loader.next();

  nlohmann::ordered_json json{{"step", bad.step}, {"why", bad.why}};
  for (const state::StepMetric& metric : bad.metrics) json["metrics"][metric.name] = json_of_float(metric.value);
  json["rows"] = rows_of(recipe, batch);
  store::FileSystem& files = store::local_files();
  const std::string own = store::join_path(kFolder, checkpoint::step_directory(bad.step));
  store::make_directories_below(files, workdir, own);
  std::string path = store::join_path(workdir, own);
  if (recipe.objective->inputs().images) {
    const data::Pp& pp = recipe.data.pp();
    const image::Image sheet = image::tiled(batch.images(), std::min(batch.rows(), kMaxRows), pp.width(), pp.height());
    if (sheet.height() > 0) {
      const std::vector<uint8_t> png = image::encode_png(sheet.view());
      store::write_atomic(files, store::join_path(path, "images.png"), std::as_bytes(std::span(png)));
    }
  }
  store::write_atomic(files, store::join_path(path, "batch.json"),
                      json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  remove_oldest(store::join_path(workdir, kFolder));
  return path;
}

}  // namespace tessera::train
