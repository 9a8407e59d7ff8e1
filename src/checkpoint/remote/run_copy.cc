#include "checkpoint/remote/run_copy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/system/background_thread.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "checkpoint/directories.h"
#include "checkpoint/remote/copy_directory.h"
#include "checkpoint/remote/unfinished_uploads.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::remote {
namespace {

constexpr auto kLook = std::chrono::seconds(1);    // for new checkpoints
constexpr auto kPause = std::chrono::seconds(30);  // after a failure
constexpr int64_t kNone = -1, kAll = std::numeric_limits<int64_t>::max();

std::string trimmed(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

bool is_copied(const std::string& name) { return name != ".lock" && name.find(".tmp") == std::string::npos; }

// Copied first: without it (train/workdir/workdir.h) another machine would not know what else is there for a run's.
constexpr const char* kRecipeFile = "recipe.toml";

// As .saved (train/workdir/workdir.h), which says that there are checkpoints.
bool is_mark(const std::string& name) { return name.starts_with('.'); }

}  // namespace

std::string fetch_run(const std::string& address) {
  const auto wanted = checkpoint::parse_run_at_step(address);
  const std::string url = trimmed(wanted ? wanted->run : address);
  for (;;) {
    const RunObjects there = list_run(url);
    const std::optional<int64_t> step = wanted ? wanted->step : there.newest(kAll);
    if (!step) {
      throw usage_error(fmt::format("`{}` holds no checkpoint of a run", one_line(url)), {},
                        "name the address that `tessera train --workdir` was given");
    }
    if (!there.committed(*step)) {
      std::vector<int64_t> steps;
      for (const auto& [one, objects] : there.checkpoints) {
        if (there.committed(one)) steps.push_back(one);
      }
      throw checkpoint::no_such_step({url, *step}, steps);
    }
    const std::string local = copy_directory(url, "fetched");
    try {
      fetch_checkpoint(url, *step, store::join_path(local, "checkpoints"));
      return fmt::format("{}@{}", local, *step);
    } catch (const store::IoError&) {
      throw;
    } catch (const Error&) {
      // A run that goes on removes this one once a newer one is there.
      if (wanted || list_run(url).newest(kAll) == step) throw;
    }
  }
}

RunCopy::RunCopy(const std::string& url, KeptOf kept_of, ClaimOptions options)
    : url_(trimmed(url)),
      local_(copy_directory(url_, "runs")),
      kept_of_(std::move(kept_of)),
      claim_(store::join_path(url_, kClaimObject), std::move(options)) {
  log_line(fmt::format("workdir  {}   local copy {}", one_line(url_), local_));
}

RunCopy::~RunCopy() { finish(); }

std::vector<int64_t> RunCopy::local_steps() const {
  store::FileSystem& files = store::local_files();
  const std::string checkpoints = store::join_path(local_, "checkpoints");
  std::vector<int64_t> steps;
  if (checkpoints_are_left_ || !files.info(checkpoints)) return steps;
  for (const store::FileInfo& entry : files.list(checkpoints)) {
    const auto name = checkpoint::parse_directory_name(entry.name);
    if (!name || name->writer) continue;
    if (files.info(store::join_path(store::join_path(checkpoints, entry.name), checkpoint::kCommitFile)))
      steps.push_back(name->step);
  }
  std::ranges::sort(steps);
  return steps;
}

// Nothing where the run has removed it.
std::optional<std::string> RunCopy::local_commit(int64_t step) const {
  store::FileSystem& files = store::local_files();
  const std::string path = store::join_path(store::join_path(local_, checkpoint_name(step)), checkpoint::kCommitFile);
  try {
    return store::read_small_file(files, path);
  } catch (const store::IoError&) {
    if (files.info(path)) throw;
    return std::nullopt;
  }
}

// One that was copied and saved again, as one that owed its evaluations, is not.
bool RunCopy::waits_for_copy(int64_t step) const {
  if (step < first_) return false;
  const auto known = copied_.find(step);
  return known == copied_.end() || local_commit(step).value_or(known->second) != known->second;
}

// ---- start ----

void RunCopy::bring_up_to_date(bool leaves_checkpoints) {
  const RunObjects there = list_run(url_);
  for (const auto& [step, objects] : there.checkpoints) {
    if (!there.committed(step)) unfinished_.insert(step);
  }
  if (there.checkpoints.empty() && there.others.empty()) put_local_aside();
  const std::vector<int64_t> here = local_steps();
  const int64_t newest_here = here.empty() ? kNone : here.back();
  auto step = there.newest(kAll);
  while (!leaves_checkpoints && step && *step > newest_here && !bring_checkpoint(*step)) step = there.newest(*step);
  const bool newer = step && *step > newest_here;
  if (newer && !leaves_checkpoints) {
    bring_kept(there, *step);
    first_ = *step;
  } else if (!newer && !leaves_checkpoints && !here.empty()) {
    find_removed(there, here);
  }
  if (newer || (here.empty() && !there.others.empty())) {
    for (const std::string& name : there.others) fetch_file(url_, name, local_);
    store::local_files().make_directories(store::join_path(local_, "checkpoints"));  // buckets have no empty folders
  }
  copying_ = std::thread([this] { copy_in_background(); });
}

// Somebody removed the run from the bucket: it starts afresh.
void RunCopy::put_local_aside() {
  store::FileSystem& files = store::local_files();
  if (!files.info(local_)) return;
  for (int number = 1;; ++number) {
    const std::string aside = fmt::format("{}.removed-{}", local_, number);
    if (files.info(aside)) continue;
    files.rename(local_, aside);
    return log_note(fmt::format("`{}` is empty: the run starts afresh, and its copy here is now {}", one_line(url_), aside));
  }
}

// Whether it is here now, whole. One that is damaged in the bucket is passed over.
bool RunCopy::bring_checkpoint(int64_t step) {
  try {
    fetch_checkpoint(url_, step, store::join_path(local_, "checkpoints"));
    copied_[step] = local_commit(step).value_or("");
    return true;
  } catch (const Error& error) {
    if (!checkpoint::is_damage(error)) throw;  // a server that does not answer has lost nothing
    log_warning(fmt::format("step {} in the bucket is passed over: {}", step, error.message()));
    damaged_.insert(step);
    return false;
  }
}

// The best checkpoints, which `step` names. Others of the bucket are replaced by newer ones, unless the run keeps some for good.
void RunCopy::bring_kept(const RunObjects& there, int64_t step) {
  const checkpoint::LoadedCheckpoint loaded = checkpoint::load(store::join_path(local_, checkpoint_name(step)));
  const KeptCheckpoints kept = kept_of_(loaded.state_json, loaded.path);
  for (const auto& [other, objects] : there.checkpoints) {
    if (other >= step || !there.committed(other)) continue;
    if (std::ranges::find(kept.best, other) != kept.best.end()) {
      bring_checkpoint(other);
    } else if (!kept.others) {
      passed_.insert(other);
    }
  }
}

// Of a run that is further here: what the run removed here, and an earlier start could not remove there any more.
void RunCopy::find_removed(const RunObjects& there, const std::vector<int64_t>& here) {
  for (const int64_t step : here) {
    if (there.committed(step)) copied_.try_emplace(step);  // as it was saved there: copy_checkpoint() looks how
  }
  try {
    store::FileSystem& files = store::local_files();
    const auto nothing = [](const std::string&, const Placed&) { return false; };
    const checkpoint::LoadedCheckpoint newest =
        checkpoint::load_part(store::join_path(local_, checkpoint_name(here.back())), files, nothing,
                              [&](const std::string& file) { return files.map(file); });
    const KeptCheckpoints kept = kept_of_(newest.state_json, newest.path);
    for (const auto& [step, objects] : there.checkpoints) {
      const bool stays = kept.others || step > here.back() || std::ranges::binary_search(here, step) ||
                         std::ranges::find(kept.best, step) != kept.best.end();
      if (!stays && there.committed(step)) passed_.insert(step);
    }
  } catch (const Error&) {
    // Who goes on from it says what is wrong with it.
  }
}

// ---- while the run goes on ----

void RunCopy::copy_in_background() {
  become_background_thread("copy of the run", "run in a bucket");
  std::unique_lock lock(mutex_);
  auto next = std::chrono::steady_clock::now();
  while (!ending_) {
    woken_.wait_until(lock, std::max(next, std::chrono::steady_clock::now() + kLook), [&] { return ending_; });
    if (ending_) break;
    lock.unlock();
    std::string failure;
    try {
      const std::lock_guard copying_now(copying_now_);
      if (std::ranges::any_of(local_steps(), [&](int64_t step) { return waits_for_copy(step); })) copy_all();
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    lock.lock();
    if (failure.empty()) continue;
    next = std::chrono::steady_clock::now() + kPause;
    if (failure != std::exchange(failure_, failure)) {
      log_warning(fmt::format("not copied to `{}`, tried again later: {}", one_line(url_), failure));
    }
  }
}

bool RunCopy::finish() {
  if (!copying_.joinable()) return true;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  woken_.notify_all();
  copying_.join();
  try {
    const std::lock_guard copying_now(copying_now_);
    copy_all();
    return true;
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    log_error(fmt::format("the end of the run is not in `{}`: {}\n  everything is in {}; the same command copies it",
                          one_line(url_), error.what(), local_));
    return false;
  }
}

void RunCopy::leave_checkpoints() {
  const std::lock_guard copying_now(copying_now_);
  passed_.clear();  // the run's own rules decide about them
  copy_all();
  store::FileSystem& files = store::local_files();
  const std::string checkpoints = store::join_path(local_, "checkpoints");
  for (const int64_t step : local_steps()) {
    try {
      checkpoint::remove_checkpoint(files, checkpoints, checkpoint::step_directory(step));
    } catch (const store::IoError&) {
      // NFS keeps the files that are mapped. Without COMMIT it is no checkpoint, and the next start replaces it.
    }
  }
  checkpoints_are_left_ = true;
  is_first_to_write_ = false;
  copied_.clear();
}

// The mark that there are checkpoints comes with the second of them.
void RunCopy::copy_before_commit() {
  const std::lock_guard copying_now(copying_now_);
  copy_files(/*marks=*/false);
  copy_files(/*marks=*/true);
  claim_.expect_held();
}

// Whether the run writes an object of that name: a file of a checkpoint, or one beside `checkpoints` that it has here. Others
// may write what else is there while it starts, as another run in a folder below, whose files a start elsewhere brought along.
bool RunCopy::is_own(const std::string& name) const {
  const RunObjects sorted = sorted_objects({name});
  if (!sorted.checkpoints.empty()) return true;
  const bool beside = !sorted.others.empty() && name.find('/') == std::string::npos;
  return beside && store::local_files().info(store::join_path(local_, name));
}

// Everything that is needed to go on from a checkpoint is there before its COMMIT, and what says that there is one after it. The
// checkpoints are listed first: one that is saved while files are copied has newer metrics, and waits for the next time.
void RunCopy::copy_all() {
  if (!store::local_files().info(local_)) return;
  claim_.expect_held();
  if (std::exchange(is_first_to_write_, false)) {
    remove_unfinished_uploads(
        url_, [&](const std::string& name) { return is_own(name); }, [&] { claim_.expect_held(); });
  }
  for (const int64_t step : std::exchange(unfinished_, {})) remove_checkpoint_objects(url_, step);
  const std::vector<int64_t> steps = local_steps();
  copy_files(/*marks=*/false);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {  // the newest is what counts
    if (waits_for_copy(*step)) copy_checkpoint(*step);
  }
  if (checkpoints_are_left_ || !copied_.empty()) copy_files(/*marks=*/true);
  remove_old(steps);
}

void RunCopy::copy_files(bool marks) {
  namespace fs = std::filesystem;
  if (!marks) copy_file(kRecipeFile);
  try {
    for (auto entry = fs::recursive_directory_iterator(local_); entry != fs::recursive_directory_iterator(); ++entry) {
      const std::string name = entry->path().lexically_relative(local_).string();
      if (entry->is_directory() && name == "checkpoints") entry.disable_recursion_pending();
      const std::string last = entry->path().filename().string();
      if (is_copied(last) && is_mark(last) == marks) copy_file(name);
    }
  } catch (const fs::filesystem_error& error) {  // as a save expects it
    throw data_error(fmt::format("cannot look through `{}`: {}", local_, error.code().message()));
  }
}

// If it is a file, and another than the one that was copied.
void RunCopy::copy_file(const std::string& name) {
  const std::string path = store::join_path(local_, name);
  struct stat now {};
  if (lstat(path.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) return;
  const FileState state{now.st_size, now.st_mtim.tv_sec * int64_t{1'000'000'000} + now.st_mtim.tv_nsec};
  const auto known = copied_files_.find(name);
  if (known != copied_files_.end() && known->second == state) return;
  try {
    store::upload_file(path, store::join_path(url_, name));
  } catch (const store::IoError&) {
    if (store::local_files().info(path)) throw;  // else it was temporary
  }
  copied_files_[name] = state;
}

// The step with that COMMIT here. One that is there already stays until COMMIT lists the new files, beside its own. False where
// the step was saved again or removed here meanwhile: then not all files that were copied are of that COMMIT.
bool RunCopy::write_checkpoint(int64_t step, const std::string& commit) {
  const std::string name = checkpoint_name(step), from = store::join_path(local_, name), to = store::join_path(url_, name);
  const std::string commit_there = store::join_path(to, checkpoint::kCommitFile);
  const auto there = store::read_object(commit_there);
  const bool damaged = damaged_.contains(step);
  if (there == commit && !damaged) return true;
  const checkpoint::Commit here = checkpoint::parse_commit(commit, from);
  std::optional<checkpoint::Commit> replaced;
  try {
    if (there) replaced = checkpoint::parse_commit(*there, to);
  } catch (const Error& error) {
    if (!checkpoint::is_damage(error)) throw;  // of a newer version
    remove_checkpoint_objects(url_, step);
  }
  if (replaced && checkpoint::same_content(here, *replaced) && !damaged) {
    checkpoint::remove_unlisted(store::files_at(to), to, *replaced);
    return true;
  }
  const checkpoint::Commit written = replaced ? checkpoint::with_prefix(here, checkpoint::other_prefix(*replaced)) : here;
  for (size_t i = 0; i < here.files.size(); ++i)
    store::upload_file(store::join_path(from, here.files[i].name), store::join_path(to, written.files[i].name));
  if (local_commit(step) != commit) return false;
  claim_.expect_held();
  store::write_object(commit_there, replaced ? checkpoint::commit_text(written) : commit);
  if (replaced) checkpoint::remove_unlisted(store::files_at(to), to, written);
  return true;
}

void RunCopy::copy_checkpoint(int64_t step) {
  const std::optional<std::string> commit = local_commit(step);
  try {
    if (commit && write_checkpoint(step, *commit)) {
      damaged_.erase(step);
      passed_.erase(step);
      copied_[step] = *commit;
      return;
    }
  } catch (const store::IoError&) {
    if (local_commit(step) == commit) throw;
  }
  if (local_commit(step)) return;  // it was saved again, and is copied the next time
  // The run kept newer ones meanwhile, which are not there yet: what was whole there stays until they are.
  const std::string to = store::join_path(url_, checkpoint_name(step));
  if (!damaged_.contains(step) && store::files_at(to).info(store::join_path(to, checkpoint::kCommitFile))) {
    copied_.try_emplace(step);
  } else {
    remove_checkpoint_objects(url_, step);
  }
}

// What the run removed here, and what lay in the bucket before it began on this machine, once there are as many newer ones.
void RunCopy::remove_old(const std::vector<int64_t>& local_steps) {
  const bool newer_are_there = copied_.size() >= 2;
  for (auto one = copied_.begin(); one != copied_.end();) {
    const bool newest = std::next(one) == copied_.end();  // stays until a newer one is there
    const bool stays = newest || std::ranges::binary_search(local_steps, one->first);
    if (!stays) remove_checkpoint_objects(url_, one->first);
    one = stays ? std::next(one) : copied_.erase(one);
  }
  if (!newer_are_there) return;
  for (const int64_t step : std::exchange(passed_, {})) remove_checkpoint_objects(url_, step);
}

}  // namespace tessera::remote
