#include "checkpoint/remote/staged_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "checkpoint/remote/copy_directory.h"
#include "store/checksums.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/url.h"

namespace tessera::remote {
namespace {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// A checkpoint is one once its COMMIT is there (checkpoint/commit.h).
int rank(const std::string& name) {
  if (store::last_part(name) == "COMMIT") return 3;
  if (name == store::kChecksumList || name.ends_with(store::kChecksumEnding)) return 2;
  return name.ends_with(".json") ? 1 : 0;
}

// Paths below `directory`.
void collect(const std::string& directory, const std::string& below, std::vector<std::string>& names) {
  for (const store::FileInfo& entry : store::local_files().list(store::join_path(directory, below))) {
    const std::string name = store::join_path(below, entry.name);
    entry.directory ? collect(directory, name, names) : names.push_back(name);
  }
}

}  // namespace

StagedOutput::StagedOutput(std::string to, const std::string& where) : to_(std::move(to)), path_(to_) {
  store::refuse_writing(to_, where);
  if (!store::is_bucket(to_)) return;
  const std::string url = without_slashes(to_);
  directory_ = fmt::format("{}-{}", copy_directory(url, "staged"), getpid());
  if (store::local_files().info(directory_)) store::remove_tree(store::local_files(), directory_);
  store::local_files().make_directories(directory_);
  path_ = store::join_path(directory_, store::last_part(url));
}

StagedOutput::~StagedOutput() {
  if (directory_.empty()) return;
  try {
    store::remove_tree(store::local_files(), directory_);
  } catch (const Error&) {
    // The cache may be cleared at any time.
  }
}

void StagedOutput::finish() {
  if (directory_.empty()) return;
  std::vector<std::string> names;
  collect(directory_, "", names);
  std::ranges::sort(names, {}, [](const std::string& name) { return std::pair(rank(name), name); });
  const std::string parent = store::parent_path(without_slashes(to_));
  for (const std::string& name : names) store::upload_file(store::join_path(directory_, name), store::join_path(parent, name));
}

}  // namespace tessera::remote
