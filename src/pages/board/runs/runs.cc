#include "pages/board/runs/runs.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "train/control/control_socket.h"

namespace tessera::board {
namespace {

constexpr int kDepth = 3;
constexpr size_t kMaxRuns = 1000;

}  // namespace

Runs::Runs(std::vector<std::string> paths, bool expected, store::FileSystem& files)
    : paths_(std::move(paths)), expected_(expected), files_(files) {}

// What can't be read holds none for now.
void Runs::look(const std::string& path, int depth, Found& found) const {
  try {
    const auto info = files_.info(path);
    if (!info || !info->directory || found.paths.size() >= kMaxRuns) return;
    if (report::holds_run(path, files_)) return found.paths.push_back(path);
    if (depth == 0) return;
    for (const store::FileInfo& entry : files_.list(path)) {
      if (entry.directory && !entry.symlink && !entry.name.starts_with('.')) {
        look(store::join_path(path, entry.name), depth - 1, found);
      }
    }
  } catch (const store::IoError& error) {
    if (error.number() != ENOENT) found.problems.push_back(error.message());  // else it was removed meanwhile
  } catch (const Error& error) {
    found.problems.push_back(error.message());
  }
}

bool Runs::scan() {
  Found found;
  if (expected_) found.paths.push_back(paths_[0]);
  for (size_t i = expected_ ? 1 : 0; i < paths_.size(); ++i) look(paths_[i], kDepth, found);
  std::ranges::sort(found.problems);
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    news = found.problems != problems_;
    problems_ = std::move(found.problems);
  }
  std::vector<std::string> distinct;
  for (std::string& path : found.paths) {
    if (std::ranges::find(distinct, path) == distinct.end()) distinct.push_back(std::move(path));
  }
  if (distinct == found_) return news;
  // In one line of UTF-8, as JSON and Prometheus want them: a page asks for a run by the name that it was told.
  std::vector<std::string> names = report::shortest_names(distinct);
  for (std::string& name : names) name = one_line(name);
  std::map<std::string, std::shared_ptr<WatchedRun>> before;
  for (const auto& run : all()) before[run->path()] = run;
  std::vector<std::shared_ptr<WatchedRun>> now;
  for (size_t i = 0; i < distinct.size(); ++i) {
    const auto known = before.find(distinct[i]);
    const bool same = known != before.end() && known->second->name() == names[i];
    now.push_back(same ? known->second : std::make_shared<WatchedRun>(names[i], distinct[i], train::is_training, files_));
  }
  std::ranges::sort(now, {}, &WatchedRun::name);
  found_ = std::move(distinct);
  const std::lock_guard lock(mutex_);
  runs_ = std::move(now);
  return true;
}

std::vector<std::string> Runs::problems() const {
  const std::lock_guard lock(mutex_);
  return problems_;
}

std::vector<std::shared_ptr<WatchedRun>> Runs::all() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

std::shared_ptr<WatchedRun> Runs::find(const std::string& name) const {
  const auto runs = all();
  for (const auto& run : runs) {
    if (run->name() == name) return run;
  }
  if (!name.empty() || runs.empty()) return nullptr;
  const auto training = std::ranges::find_if(runs, [](const auto& run) { return run->state() == "running"; });
  return training == runs.end() ? runs[0] : *training;
}

}  // namespace tessera::board
