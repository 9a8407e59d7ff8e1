#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "store/file.h"
#include "train/evaluate.h"

namespace tessera::train {
namespace {

using nlohmann::ordered_json;

// As few digits as read back as the same float.
ordered_json number(float value) {
  return std::isfinite(value) ? ordered_json(std::stod(fmt::format("{}", value))) : ordered_json();
}

class Lines {
 public:
  Lines(const EvalPlan& plan, const Evaluation& evaluation)
      : source_(plan.sets[0].data.source()), classes_(source_.class_names()), evaluation_(evaluation) {}

  std::string line(size_t i) const {
    ordered_json json;
    json["id"] = source_.id(evaluation_.samples[i]);
    if (!evaluation_.labels.empty()) json["label"] = classes_[static_cast<size_t>(evaluation_.labels[i])];
    std::span<const float> values = evaluation_.said.row(static_cast<int64_t>(i));
    for (const objectives::Column& column : evaluation_.columns) {
      const std::span<const float> own = values.first(static_cast<size_t>(column.width));
      values = values.subspan(own.size());
      ordered_json list = ordered_json::array();
      for (const float value : own) list.push_back(column.classes ? class_of(value) : number(value));
      json[column.name] = list.size() == 1 ? list[0] : list;
    }
    return json.dump() + "\n";
  }

 private:
  ordered_json class_of(float value) const {
    const auto at = static_cast<size_t>(value);
    return at < classes_.size() ? ordered_json(classes_[at]) : ordered_json();
  }

  const data::Source& source_;
  const std::vector<std::string>& classes_;
  const Evaluation& evaluation_;
};

}  // namespace

void write_files(const EvalPlan& plan, const Evaluation& evaluation, const std::string& path) {
  if (!plan.options.predictions && evaluation.details.empty()) return;
  store::FileSystem& files = store::local_files();
  files.make_directories(store::parent_path(path));
  if (!evaluation.details.empty()) store::write_atomic(files, path + ".json", evaluation.details + "\n");
  if (!plan.options.predictions) return;
  const Lines lines(plan, evaluation);
  store::write_atomic(files, path + ".jsonl", [&](const std::string& temporary) {
    const auto file = files.create(temporary);
    for (size_t i = 0; i < evaluation.samples.size(); ++i) {
      const std::string line = lines.line(i);
      file->write(std::as_bytes(std::span(line)));
    }
    file->sync();
  });
}

}  // namespace tessera::train
