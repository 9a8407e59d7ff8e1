#include "checkpoint/remote/run_objects.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "checkpoint/directories.h"
#include "store/file.h"
#include "store/servers/buckets.h"

namespace tessera::remote {
namespace {

bool stays_inside(const std::string& name) {
  const std::vector<std::string> parts = split(name, '/');
  return std::ranges::none_of(parts, [](const std::string& part) {
    return part.empty() || part == "." || part == ".." || part.find('\0') != std::string::npos;
  });
}

std::string commit_name(int64_t step) { return store::join_path(checkpoint_name(step), checkpoint::kCommitFile); }

void add_object(const std::string& name, RunObjects& found) {
  if (!stays_inside(name) || name == kClaimObject) return;
  const std::vector<std::string> parts = split(name, '/');
  if (parts[0] != "checkpoints") return found.others.push_back(name);
  const auto directory = parts.size() == 3 ? checkpoint::parse_directory_name(parts[1]) : std::nullopt;
  if (directory && !directory->writer) found.checkpoints[directory->step].push_back(name);
}

// The folders of other runs below the one whose objects they are, each with "/" at its end.
std::set<std::string, std::less<>> runs_below(const std::vector<std::string>& names) {
  std::set<std::string, std::less<>> folders;
  for (const std::string& name : names) {
    const std::string file = store::last_part(name);
    if (name != file && (file == kClaimObject || file == kRecipeObject))
      folders.insert(name.substr(0, name.size() - file.size()));
  }
  return folders;
}

// Whether it is in one of the folders.
bool is_in(const std::set<std::string, std::less<>>& folders, std::string_view name) {
  for (size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1)) {
    if (folders.contains(name.substr(0, slash + 1))) return true;
  }
  return false;
}

// The file as COMMIT has it.
void fetch_committed(const std::string& url, const std::string& directory, const checkpoint::CommittedFile& file) {
  const std::string object = store::join_path(url, file.name);
  if (!store::files_at(object).info(object)) throw checkpoint::damaged_file(one_line(object), "it is missing");
  const uint32_t crc = store::download_file(object, store::join_path(directory, file.name));
  const auto info = store::local_files().info(store::join_path(directory, file.name));
  if (crc == file.crc32c && info && info->size == file.size) return;
  throw checkpoint::damaged_file(one_line(object), "its bytes are not those that COMMIT lists");
}

// The checkpoint of that COMMIT, below the local directory `checkpoints`.
void fetch_listed(const std::string& url, const std::string& text, const std::string& checkpoints, const std::string& name) {
  store::FileSystem& files = store::local_files();
  const checkpoint::Commit commit = checkpoint::parse_commit(text, store::join_path(url, checkpoint::kCommitFile));
  const std::string temporary = fmt::format("{}.tmp-{}", name, getpid());
  const std::string directory = store::join_path(checkpoints, temporary);
  files.make_directories(checkpoints);
  checkpoint::remove_checkpoint(files, checkpoints, temporary);
  files.make_directories(directory);
  try {
    for (const checkpoint::CommittedFile& file : commit.files) fetch_committed(url, directory, file);
    store::write_atomic(files, store::join_path(directory, checkpoint::kCommitFile), text);
    checkpoint::remove_checkpoint(files, checkpoints, name);
    files.rename(directory, store::join_path(checkpoints, name));
    files.sync_directory(checkpoints);
  } catch (...) {
    checkpoint::remove_checkpoint(files, checkpoints, temporary);
    throw;
  }
}

}  // namespace

bool RunObjects::committed(int64_t step) const {
  const auto found = checkpoints.find(step);
  return found != checkpoints.end() && std::ranges::find(found->second, commit_name(step)) != found->second.end();
}

std::optional<int64_t> RunObjects::newest(int64_t before) const {
  for (auto one = checkpoints.rbegin(); one != checkpoints.rend(); ++one) {
    if (one->first < before && committed(one->first)) return one->first;
  }
  return std::nullopt;
}

std::string checkpoint_name(int64_t step) { return store::join_path("checkpoints", checkpoint::step_directory(step)); }

RunObjects sorted_objects(const std::vector<std::string>& names) {
  RunObjects found;
  const std::set<std::string, std::less<>> others = runs_below(names);
  for (const std::string& name : names) {
    if (!is_in(others, name)) add_object(name, found);
  }
  return found;
}

RunObjects list_run(const std::string& url) {
  if (!store::files_at(url).info(url)) return {};
  std::vector<std::string> names;
  store::list_objects(url, [&](const std::string& name, const store::ListedObject&) { names.push_back(name); });
  return sorted_objects(names);
}

void fetch_checkpoint(const std::string& url, int64_t step, const std::string& checkpoints) {
  store::FileSystem& files = store::local_files();
  const std::string name = checkpoint::step_directory(step), from = store::join_path(url, checkpoint_name(step));
  const std::string commit_url = store::join_path(from, checkpoint::kCommitFile);
  const std::string there = store::join_path(store::join_path(checkpoints, name), checkpoint::kCommitFile);
  std::optional<std::string> text = store::read_object(commit_url);
  for (;;) {
    if (!text) throw data_error(fmt::format("`{}` has no COMMIT any more", one_line(from)));
    if (files.info(there) && store::read_text(files, there) == *text) return;
    try {
      return fetch_listed(from, *text, checkpoints, name);
    } catch (const store::IoError&) {
      throw;
    } catch (const Error&) {
      // One that was saved again meanwhile, whose files have other names then, is fetched as it is now.
      std::optional<std::string> now = store::read_object(commit_url);
      if (now == text) throw;
      text = std::move(now);
    }
  }
}

void fetch_file(const std::string& url, const std::string& name, const std::string& directory) {
  store::FileSystem& files = store::local_files();
  const std::string path = store::join_path(directory, name), part = fmt::format("{}.tmp-{}", path, getpid());
  files.make_directories(store::parent_path(path));
  store::download_file(store::join_path(url, name), part);
  files.rename(part, path);
}

checkpoint::LoadedCheckpoint load_checkpoint(const std::string& url, int64_t step, const checkpoint::NeedsPiece& needs) {
  const std::string path = store::join_path(url, checkpoint_name(step));
  return checkpoint::load_part(path, store::files_at(path), needs, store::map_copy);
}

void remove_checkpoint_objects(const std::string& url, int64_t step) {
  checkpoint::remove_checkpoint(store::files_at(url), store::join_path(url, "checkpoints"), checkpoint::step_directory(step));
}

}  // namespace tessera::remote
