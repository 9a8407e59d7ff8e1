#include "pages/board/api.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "checkpoint/commit.h"
#include "pages/report/sections.h"
#include "pages/report/verdict.h"

namespace tessera::board {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTrainingPictures = 16;
constexpr int64_t kMaxLog = 256 << 10;
constexpr const char* kLog = "log.txt";

report::SavedRun read(const std::string& path, store::FileSystem& files) {
  return std::move(report::read_runs({path}, files).front());
}

Json remarks(const report::SavedRun& run) {
  Json out = Json::array();
  for (const report::Remark& one : report::verdict(run)) {
    out.push_back({{"topic", one.topic}, {"text", one.text}, {"advice", one.advice}, {"trouble", one.trouble}});
  }
  return out;
}

Json times(const report::SavedRun& run) {
  const report::TimeShares time = report::time_shares(run);
  Json stages = Json::object();
  for (const auto& [name, share] : time.stages) stages[name] = share;
  return {{"total", time.total},       {"training", time.training}, {"waiting", time.waiting},
          {"starting", time.starting}, {"other", time.other},       {"input_stages", std::move(stages)}};
}

// Those that are committed, by step.
Json checkpoints(const std::string& path, store::FileSystem& files) {
  Json out = Json::array();
  const std::string directory = store::join_path(path, "checkpoints");
  if (!files.info(directory)) return out;
  for (const store::FileInfo& entry : files.list(directory)) {
    const auto name = checkpoint::parse_directory_name(entry.name);
    const std::string step_directory = store::join_path(directory, entry.name);
    if (!entry.directory || !name || name->writer || !files.info(store::join_path(step_directory, "COMMIT"))) continue;
    int64_t bytes = 0;
    for (const store::FileInfo& file : files.list(step_directory)) bytes += file.size;
    out.push_back({{"step", name->step}, {"path", step_directory}, {"bytes", bytes}});
  }
  return out;
}

}  // namespace

Json run_details(const std::string& path, store::FileSystem& files) {
  const report::SavedRun run = read(path, files);
  Json out = {{"remarks", remarks(run)}, {"seconds", times(run)}, {"recipe", run.recipe}};
  out["facts"] = run.facts ? parse_ordered_json(train::to_json(*run.facts), path) : Json();
  out["checkpoints"] = checkpoints(path, files);
  out["problems"] = run.problems;
  return out;
}

Json log_lines(const std::string& path, int64_t after, store::FileSystem& files) {
  const std::string log = store::join_path(path, kLog);
  const auto info = files.info(log);
  Json lines = Json::array();
  if (!info) return {{"lines", lines}, {"next", 0}};
  if (after < 0 || after > info->size) after = 0;  // another file
  const bool cut = info->size - after > kMaxLog;
  if (cut) after = info->size - kMaxLog;
  const std::vector<std::byte> bytes = store::read_range(files, log, after, info->size - after);
  std::string_view text = store::as_text(bytes);
  text = text.substr(0, text.rfind('\n') + 1);  // npos + 1: nothing
  const int64_t next = after + static_cast<int64_t>(text.size());
  if (cut) text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  return {{"lines", std::move(lines)}, {"next", next}};
}

report::Markup evaluations_part(const std::string& path, store::FileSystem& files) {
  const report::SavedRun run = report::read_run_head(path, files);
  report::Html html;
  for (const train::EvaluationSummary& evaluation : run.evaluations) {
    html.add(report::evaluation_section(evaluation, report::worst_pictures(run, evaluation)));
  }
  return html.take();
}

report::Markup images_part(const std::string& path, store::FileSystem& files) {
  return report::training_images(report::training_pictures(report::read_run_head(path, files), kTrainingPictures));
}

report::Markup facts_part(const std::string& path, store::FileSystem& files) {
  const report::SavedRun run = read(path, files);
  report::Html html;
  html.add(report::resources(run, report::time_shares(run)));
  html.add(report::origin(run));
  return html.take();
}

report::Markup differences_part(const std::vector<std::string>& paths, store::FileSystem& files) {
  return report::recipe_differences(report::read_runs(paths, files));
}

}  // namespace tessera::board
