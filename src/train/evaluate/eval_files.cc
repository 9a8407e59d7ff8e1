#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text/text.h"
#include "data/formats/parquet/parquet.h"
#include "store/file.h"
#include "train/evaluate/evaluate.h"

namespace tessera::train {
namespace {

using nlohmann::ordered_json;

// As few digits as read back as the same float.
ordered_json number(float value) {
  return std::isfinite(value) ? ordered_json(std::stod(fmt::format("{}", value))) : ordered_json();
}

// The lines of a JSON file.
class Lines {
 public:
  Lines(const recipe::EvalPlan& plan, const Evaluation& evaluation)
      : source_(plan.sets[0].data.source()), classes_(source_.class_names()), evaluation_(evaluation) {}

  std::string line(size_t i) const {
    ordered_json json;
    json["id"] = source_.id(evaluation_.samples[i]);
    if (!evaluation_.labels.empty()) json["label"] = classes_[static_cast<size_t>(evaluation_.labels[i])];
    if (source_.multi_label()) json["labels"] = labels_of(i);
    std::span<const float> values = evaluation_.predictions.row(static_cast<int64_t>(i));
    for (const evaluators::Column& column : evaluation_.columns) {
      const std::span<const float> own = values.first(static_cast<size_t>(column.width));
      values = values.subspan(own.size());
      ordered_json list = ordered_json::array();
      for (const float value : own) list.push_back(column.classes ? class_of(value) : number(value));
      json[column.name] = list.size() == 1 ? list[0] : list;
    }
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }

 private:
  ordered_json labels_of(size_t i) const {
    ordered_json names = ordered_json::array();
    for (size_t c = 0; c < classes_.size(); ++c) {
      if (evaluation_.multi_hot[i * classes_.size() + c] != 0) names.push_back(classes_[c]);
    }
    return names;
  }
  ordered_json class_of(float value) const {
    const auto at = static_cast<size_t>(value);
    return at < classes_.size() ? ordered_json(classes_[at]) : ordered_json();
  }

  const data::Source& source_;
  const std::vector<std::string>& classes_;
  const Evaluation& evaluation_;
};

// The columns of a Parquet file.
class Table {
 public:
  Table(const recipe::EvalPlan& plan, const Evaluation& evaluation)
      : source_(plan.sets[0].data.source()), classes_(source_.class_names()), evaluation_(evaluation) {
    for (const int64_t sample : evaluation_.samples) ids_.push_back(source_.id(sample));
  }

  void write(const std::string& path) const {
    std::vector<data::ParquetColumn> columns(1, {"id"});
    for (const std::string& id : ids_) columns[0].texts.push_back(text(id));
    if (!evaluation_.labels.empty()) {
      columns.push_back({"label"});
      for (const int32_t label : evaluation_.labels) columns.back().texts.push_back(class_of(static_cast<float>(label)));
    }
    if (source_.multi_label()) columns.push_back(labels());
    int64_t first = 0;
    for (const evaluators::Column& column : evaluation_.columns) {
      columns.push_back(column.classes ? classes(column, first) : numbers(column, first));
      first += column.width;
    }
    data::write_parquet(path, columns, static_cast<int64_t>(ids_.size()));
  }

 private:
  static TesseraParquetText text(const std::string& of) { return {of.data(), static_cast<int64_t>(of.size())}; }
  TesseraParquetText class_of(float value) const {
    const auto at = static_cast<size_t>(value);
    return at < classes_.size() ? text(classes_[at]) : TesseraParquetText{};
  }
  data::ParquetColumn labels() const {
    data::ParquetColumn out{"labels"};
    for (size_t i = 0; i < ids_.size(); ++i) {
      const size_t before = out.texts.size();
      for (size_t c = 0; c < classes_.size(); ++c) {
        if (evaluation_.multi_hot[i * classes_.size() + c] != 0) out.texts.push_back(text(classes_[c]));
      }
      out.counts.push_back(static_cast<int64_t>(out.texts.size() - before));
    }
    return out;
  }
  data::ParquetColumn numbers(const evaluators::Column& column, int64_t first) const {
    return {column.name, column.width, {}, evaluation_.predictions.values.data() + first, evaluation_.predictions.width};
  }
  data::ParquetColumn classes(const evaluators::Column& column, int64_t first) const {
    data::ParquetColumn out{column.name, column.width};
    for (int64_t row = 0; row < evaluation_.predictions.rows(); ++row) {
      for (const float value :
           evaluation_.predictions.row(row).subspan(static_cast<size_t>(first), static_cast<size_t>(column.width)))
        out.texts.push_back(class_of(value));
    }
    return out;
  }

  const data::Source& source_;
  const std::vector<std::string>& classes_;
  const Evaluation& evaluation_;
  std::vector<std::string> ids_;
};

void write_lines(const recipe::EvalPlan& plan, const Evaluation& evaluation, const std::string& path) {
  const Lines lines(plan, evaluation);
  const auto file = store::local_files().create(path);
  for (size_t i = 0; i < evaluation.samples.size(); ++i) {
    const std::string line = lines.line(i);
    file->write(std::as_bytes(std::span(line)));
  }
  file->sync();
}

void write_skipped(const Evaluation& evaluation, const std::string& path) {
  std::string lines;
  for (const auto& [source, file] : evaluation.skipped) {
    const ordered_json line = {{"source", source}, {"id", file.id}, {"reason", file.reason}};
    lines += line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  }
  store::write_atomic(store::local_files(), path, lines);
  const auto count = static_cast<int64_t>(evaluation.skipped.size());
  log_warning(fmt::format("{} image{} of the evaluation could not be read and {} left out of its scores; see {}",
                          human_count(count), count == 1 ? "" : "s", count == 1 ? "is" : "are", path));
}

}  // namespace

void write_files(const recipe::EvalPlan& plan, const Evaluation& evaluation, const std::string& path) {
  if (!plan.options.predictions && evaluation.details.empty() && evaluation.skipped.empty()) return;
  store::FileSystem& files = store::local_files();
  files.make_directories(store::parent_path(path));
  if (!evaluation.skipped.empty()) write_skipped(evaluation, path + ".skipped.jsonl");
  if (!evaluation.details.empty()) store::write_atomic(files, path + ".json", evaluation.details + "\n");
  if (!plan.options.predictions) return;
  store::write_atomic(files, path + "." + plan.options.predictions_format, [&](const std::string& temporary) {
    if (plan.options.predictions_format == "jsonl") return write_lines(plan, evaluation, temporary);
    Table(plan, evaluation).write(temporary);
    files.append(temporary)->sync();
  });
}

}  // namespace tessera::train
