#include "pages/board/runs/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "train/control/control_socket.h"

namespace tessera::board {
namespace {

constexpr int kDepth = 3;
constexpr size_t kMaxRuns = 1000;

// The digits of `text` from `at` on, of a whole number: behind a point they are a fraction's, in the order of letters.
std::string_view whole_number(std::string_view text, size_t at) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t begin = at, end = at;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  if (begin > 0 && text[begin - 1] == '.') return {};
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(at, end - at);
}

// As people count: "digits-2" before "digits-10".
bool comes_before(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const std::string_view x = whole_number(a, i), y = whole_number(b, j);
    if (x.empty() || y.empty()) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const std::string_view value = x.substr(std::min(x.find_first_not_of('0'), x.size()));
    const std::string_view other = y.substr(std::min(y.find_first_not_of('0'), y.size()));
    if (value != other) return value.size() != other.size() ? value.size() < other.size() : value < other;
    i += x.size(), j += y.size();
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // "run-1" and "run-01"
}

// `name`, or where others in `taken` (name -> path) have it, a longer end of `path`. In one line of UTF-8, as JSON and
// Prometheus want it: a page asks for a run by the name that it was told.
std::string free_name(const std::string& name, const std::string& path, const std::map<std::string, std::string>& taken) {
  std::string out = one_line(name);
  for (auto holder = taken.find(out); holder != taken.end(); holder = taken.find(out)) {
    std::string longer = one_line(report::shortest_names({holder->second, path})[1]);
    if (longer.size() <= out.size()) break;
    out = std::move(longer);
  }
  const std::string base = out;
  // Paths that read the same.
  for (int number = 2; taken.contains(out); ++number) out = fmt::format("{} ({})", base, number);
  return out;
}

}  // namespace

Runs::Runs(std::vector<std::string> paths, bool expected, store::FileSystem& files)
    : paths_(std::move(paths)), names_(report::shortest_names(paths_)), expected_(expected), files_(files) {}

// What can't be read holds none for now.
void Runs::look(const std::string& path, const std::string& name, const std::string& below, int depth, Found& found) const {
  try {
    const auto info = files_.info(path);
    if (!info || !info->directory || found.more) return;
    if (report::holds_run(path, files_)) {
      found.more = found.places.size() >= kMaxRuns;
      if (!found.more) found.places.push_back({path, below.empty() ? name : below});
      return;
    }
    if (depth == 0) return;
    for (const store::FileInfo& entry : files_.list(path)) {
      if (entry.directory && !entry.symlink && !entry.name.starts_with('.')) {
        look(store::join_path(path, entry.name), name, store::join_path(below, entry.name), depth - 1, found);
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
  if (expected_) found.places.push_back({paths_[0], names_[0]});
  for (size_t i = expected_ ? 1 : 0; i < paths_.size(); ++i) look(paths_[i], names_[i], {}, kDepth, found);
  std::ranges::sort(found.problems);
  if (found.more) {
    found.problems.push_back(fmt::format(
        "there are more than {} runs, and the others are left out: name directories with fewer", human_count(kMaxRuns)));
  }
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    news = found.problems != problems_;
    problems_ = std::move(found.problems);
  }
  std::vector<Place> distinct;
  for (Place& place : found.places) {
    if (std::ranges::find(distinct, place.path, &Place::path) == distinct.end()) distinct.push_back(std::move(place));
  }
  if (distinct == found_) return news;
  std::map<std::string, std::shared_ptr<WatchedRun>> before;
  for (const auto& run : all()) before[run->path()] = run;
  std::vector<std::shared_ptr<WatchedRun>> now;
  std::map<std::string, std::string> taken;  // name -> path
  for (const Place& place : distinct) {
    const auto known = before.find(place.path);
    if (known == before.end()) continue;
    now.push_back(known->second);
    taken[known->second->name()] = place.path;
  }
  for (const Place& place : distinct) {
    if (before.contains(place.path)) continue;
    const std::string name = free_name(place.name, place.path, taken);
    now.push_back(std::make_shared<WatchedRun>(name, place.path, train::is_training, files_));
    taken[name] = place.path;
  }
  std::ranges::sort(now, comes_before, &WatchedRun::name);
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
