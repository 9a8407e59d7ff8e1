#include "inference/score_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "data/formats/csv.h"
#include "store/file.h"

namespace tessera::inference {
namespace {

const std::vector<std::string> kKeys{"run", "step", "weights", "recipe"};

}  // namespace

ScoreTable::ScoreTable(std::string path) : path_(std::move(path)) {
  store::FileSystem& files = store::local_files();
  if (!files.info(path_)) return;
  const auto refuse = [&](const std::string& why) {
    return data_error(fmt::format("`{}` is no table of scores: {}", path_, why), "--csv",
                      "name another file, or move this one away");
  };
  const auto file = files.open(path_);
  const std::string text = store::read_text(files, path_);
  bool header = true;
  for (const data::Extent& extent : data::scan_csv(path_, *file, ',')) {
    const auto cells = data::parse_csv_record(
        std::string_view(text).substr(static_cast<size_t>(extent.offset), static_cast<size_t>(extent.length)), ',');
    if (!cells) throw refuse("a quote has no end");
    if (header) {
      const bool own = cells->size() > kKeys.size() && std::equal(kKeys.begin(), kKeys.end(), cells->begin());
      if (!own) throw refuse(fmt::format("its first columns are not {}", join(kKeys, ",")));
      columns_.assign(cells->begin() + static_cast<ptrdiff_t>(kKeys.size()), cells->end());
      header = false;
      continue;
    }
    const bool whole = cells->size() == kKeys.size() + columns_.size();
    const auto step = whole ? parse_number((*cells)[1]) : std::nullopt;
    if (!whole || (!step && !(*cells)[1].empty())) throw refuse(fmt::format("`{}` is no row of it", join(*cells, ",")));
    auto& row =
        rows_[{(*cells)[0], step ? std::optional(static_cast<int64_t>(*step)) : std::nullopt, (*cells)[2], (*cells)[3]}];
    for (size_t i = 0; i < columns_.size(); ++i) row[columns_[i]] = (*cells)[kKeys.size() + i];
  }
}

void ScoreTable::add(const ScoredCheckpoint& checkpoint, const NamedValues& scores) {
  auto& row = rows_[checkpoint];
  row.clear();
  for (const auto& [name, value] : scores) {
    if (std::ranges::find(columns_, name) == columns_.end()) columns_.push_back(name);
    row[name] = fmt::format("{}", value);
  }
  store::FileSystem& files = store::local_files();
  const std::string folder = store::parent_path(path_);
  if (!folder.empty()) files.make_directories(folder);
  store::write_atomic(files, path_, text());
}

std::string ScoreTable::text() const {
  std::string text = join(kKeys, ",");
  for (const std::string& column : columns_) text += "," + csv_text(column);
  text += "\n";
  for (const auto& [of, values] : rows_) {
    text +=
        fmt::format("{},{},{},{}", csv_text(of.run), of.step ? std::to_string(*of.step) : "", of.weights, csv_text(of.recipe));
    for (const std::string& column : columns_) {
      const auto value = values.find(column);
      text += "," + (value == values.end() ? "" : csv_text(value->second));
    }
    text += "\n";
  }
  return text;
}

}  // namespace tessera::inference
