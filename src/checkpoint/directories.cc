#include "checkpoint/directories.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text/pattern.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "store/servers/buckets.h"
#include "store/url.h"

namespace tessera::checkpoint {
namespace {

// Removes the files of ours; gives the names of what is left.
std::vector<std::string> remove_own_files(store::Directory& directory) {
  if (const auto commit = directory.info(std::string(kCommitFile)); commit && !commit->directory) {
    directory.remove_file(commit->name);
    directory.sync();
  }
  std::vector<std::string> others;
  for (const store::FileInfo& entry : directory.list()) {
    if (entry.directory || !is_own_file(entry.name)) {
      others.push_back(entry.name);
    } else {
      directory.remove_file(entry.name);
    }
  }
  return others;
}

void warn_about(const std::vector<std::string>& others, const std::string& path) {
  constexpr size_t kShown = 5;
  const std::vector<std::string> shown(others.begin(), others.begin() + std::min<ptrdiff_t>(std::ssize(others), kShown));
  log_warning(fmt::format("`{}` is not needed any more, but stays: it holds what this program did not write ({}{})", path,
                          join(shown, ", "), others.size() > kShown ? ", …" : ""));
}

void remove_objects(const std::string& url) {
  store::remove_object(store::join_path(url, kCommitFile));
  if (!store::files_at(url).info(url)) return;
  std::vector<std::string> names;
  store::list_objects(url, [&](const std::string& name, const store::ListedObject&) { names.push_back(name); });
  for (const std::string& name : names) store::remove_object(store::join_path(url, name));
  store::remove_object(url);  // the mark of an empty folder that Arrow leaves on S3
}

}  // namespace

bool is_own_file(std::string_view name) {
  static const Pattern own(R"(COMMIT(\.tmp-[0-9]+)?|(r[0-9]+-)?state(\.json|(-[0-9]{5,}-of-[0-9]{5,})?\.safetensors)|)"
                           R"(part-[0-9]{5,}-of-[0-9]{5,}\.json(\.tmp-[0-9]+)?)");
  return own.matches(name);
}

Condition condition_of(store::FileSystem& files, const std::string& path, const std::string& run) {
  if (!files.info(store::join_path(path, kCommitFile))) return Condition::kHalfRemoved;
  const auto name = parse_directory_name(store::last_part(path));
  try {
    const Commit commit = read_commit(files, path);
    if (name && name->step != commit.step) return Condition::kDamaged;
    return run.empty() || commit.run.empty() || commit.run == run ? Condition::kWhole : Condition::kOtherRun;
  } catch (const Error&) {
    return Condition::kDamaged;
  }
}

void remove_checkpoint(store::FileSystem& files, const std::string& directory, const std::string& name) {
  if (store::is_remote(directory)) return remove_objects(store::join_path(directory, name));
  const auto parent = files.open_directory(directory);
  const auto entry = parent->info(name);
  if (!entry) return;
  if (!entry->directory) return parent->remove_file(name);
  std::vector<std::string> others;
  size_t before = 0;
  {
    const auto checkpoint = parent->open(name);
    before = checkpoint->list().size();
    others = remove_own_files(*checkpoint);
  }
  if (others.empty()) return parent->remove_directory(name);
  // The warning comes once: the next time no file of ours is left to remove.
  if (others.size() < before) warn_about(others, store::join_path(directory, name));
}

void remove_unlisted(store::FileSystem& files, const std::string& path, const Commit& commit) {
  for (const store::FileInfo& entry : files.list(path)) {
    const bool listed = std::ranges::find(commit.files, entry.name, &CommittedFile::name) != commit.files.end();
    if (listed || entry.directory || entry.name == kCommitFile || !is_own_file(entry.name)) continue;
    files.remove_file(store::join_path(path, entry.name));
  }
}

std::string put_aside(store::FileSystem& files, const std::string& directory, const std::string& name, std::string_view why) {
  const std::string path = store::join_path(directory, name);
  std::string aside = fmt::format("{}.{}", path, why);
  for (int n = 2; files.info(aside); ++n) aside = fmt::format("{}.{}.{}", path, why, n);
  files.rename(path, aside);
  files.sync_directory(directory);
  return aside;
}

}  // namespace tessera::checkpoint
