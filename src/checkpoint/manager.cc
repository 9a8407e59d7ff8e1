#include "checkpoint/manager.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/commit.h"
#include "store/crc32c.h"

namespace tessera::checkpoint {
namespace {

void ignore_errors(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error&) {
    // What was left over is removed by the next sweep.
  }
}

CommittedFile write_state_json(store::FileSystem& files, const std::string& directory, const Snapshot& snapshot) {
  nlohmann::ordered_json json;
  json["format_version"] = kFormatVersion;
  json["step"] = snapshot.step;
  json["state"] = nlohmann::ordered_json::parse(snapshot.state_json);
  const std::string text = json.dump(2) + "\n";
  const auto file = files.create(store::join_path(directory, kStateJsonFile));
  file->write(store::as_bytes(text));
  file->sync();
  file->close();
  return {std::string(kStateJsonFile), static_cast<int64_t>(text.size()), store::crc32c(store::as_bytes(text))};
}

CommittedFile write_state(store::FileSystem& files, const std::string& directory, const Snapshot& snapshot) {
  std::vector<TensorView> views;
  views.reserve(snapshot.tensors.size());
  for (const HostTensor& tensor : snapshot.tensors) views.push_back({tensor.name, tensor.type, tensor.data.data});
  const FileSum sum = write_safetensors(files, store::join_path(directory, kStateFile), views,
                                        {{"format", "tessera"}, {"step", std::to_string(snapshot.step)}});
  return {std::string(kStateFile), sum.size, sum.crc32c};
}

void write_commit(store::FileSystem& files, const std::string& directory, const Commit& commit) {
  const auto file = files.create(store::join_path(directory, kCommitFile));
  file->write(store::as_bytes(commit_text(commit)));
  file->sync();
  file->close();
}

bool process_is_dead(int64_t pid) { return pid == getpid() || (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH); }

// COMMIT goes first and durably, so that no power cut leaves a directory that looks whole.
void remove_checkpoint(store::FileSystem& files, const std::string& path) {
  const std::string commit = store::join_path(path, kCommitFile);
  if (files.info(commit)) {
    files.remove_file(commit);
    files.sync_directory(path);
  }
  store::remove_tree(files, path);
}

enum class Condition { kWhole, kHalfRemoved, kDamaged };

Condition condition_of(store::FileSystem& files, const std::string& path) {
  if (!files.info(store::join_path(path, kCommitFile))) return Condition::kHalfRemoved;
  try {
    read_commit(files, path);
    return Condition::kWhole;
  } catch (const Error&) {
    return Condition::kDamaged;
  }
}

}  // namespace

std::string write_checkpoint(store::FileSystem& files, const std::string& directory, const Snapshot& snapshot) {
  TESSERA_CHECK(snapshot.step >= 0 && nlohmann::json::accept(snapshot.state_json), "step {}", snapshot.step);
  const std::string path = store::join_path(directory, step_directory(snapshot.step));
  const std::string temporary = fmt::format("{}.tmp-{}", path, getpid());
  try {
    files.make_directories(directory);
    if (files.info(temporary)) store::remove_tree(files, temporary);
    files.make_directories(temporary);
    Commit commit{snapshot.step, {}};
    commit.files.push_back(write_state(files, temporary, snapshot));
    commit.files.push_back(write_state_json(files, temporary, snapshot));
    if (snapshot.before_commit) snapshot.before_commit();
    write_commit(files, temporary, commit);
    files.sync_directory(temporary);
    // A directory of this name is a damaged checkpoint, or one of a run that was set back to an earlier step.
    if (files.info(path)) {
      files.exchange(temporary, path);
    } else {
      files.rename(temporary, path);
    }
  } catch (...) {
    ignore_errors([&] { store::remove_tree(files, temporary); });
    throw;
  }
  files.sync_directory(directory);
  ignore_errors([&] {
    if (files.info(temporary)) store::remove_tree(files, temporary);
  });
  return path;
}

void apply_keep_rules(store::FileSystem& files, const std::string& directory, const KeepRules& rules, int64_t newest) {
  std::vector<int64_t> whole;
  for (const store::FileInfo& entry : files.list(directory)) {
    const auto name = parse_directory_name(entry.name);
    if (!name || name->writer || !entry.directory || name->step >= newest) continue;
    const std::string path = store::join_path(directory, entry.name);
    const Condition condition = condition_of(files, path);
    if (condition == Condition::kWhole) whole.push_back(name->step);
    if (condition == Condition::kHalfRemoved) remove_checkpoint(files, path);
  }
  std::sort(whole.begin(), whole.end(), std::greater<>());
  for (size_t i = 0; i < whole.size(); ++i) {
    const bool recent = static_cast<int64_t>(i) + 1 < rules.keep_last;
    const bool kept_for_ever = rules.keep_every_steps > 0 && whole[i] % rules.keep_every_steps == 0;
    if (!recent && !kept_for_ever) remove_checkpoint(files, store::join_path(directory, step_directory(whole[i])));
  }
}

void sweep_leftovers(store::FileSystem& files, const std::string& directory) {
  ignore_errors([&] {
    for (const store::FileInfo& entry : files.list(directory)) {
      const auto name = parse_directory_name(entry.name);
      if (!name || !name->writer || !entry.directory || !process_is_dead(*name->writer)) continue;
      ignore_errors([&] { store::remove_tree(files, store::join_path(directory, entry.name)); });
    }
  });
}

CheckpointManager::CheckpointManager(std::string directory, KeepRules rules, store::FileSystem& files)
    : directory_(std::move(directory)), rules_(rules), files_(files) {
  if (rules.keep_last < 1) throw usage_error("at least one checkpoint must be kept", "checkpoint.keep", "set it to 1 or more");
  if (rules.keep_every_steps < 0) throw usage_error("the interval of kept checkpoints cannot be negative", "checkpoint");
  files_.make_directories(directory_);
  sweep_leftovers(files_, directory_);
  writer_ = std::thread([this] { run(); });
}

CheckpointManager::~CheckpointManager() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  writer_.join();
  for (const SaveFailure& failure : unpolled_) log_warning(failure.message);
}

void CheckpointManager::save_async(Snapshot snapshot) {
  TESSERA_CHECK(nlohmann::json::accept(snapshot.state_json), "the state of step {} is not JSON", snapshot.step);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !next_; });
    next_ = std::move(snapshot);
  }
  changed_.notify_all();
}

void CheckpointManager::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !next_; });
}

std::optional<SaveFailure> CheckpointManager::poll_failure() {
  const std::lock_guard lock(mutex_);
  if (unpolled_.empty()) return std::nullopt;
  SaveFailure failure = std::move(unpolled_.front());
  unpolled_.erase(unpolled_.begin());
  return failure;
}

int64_t CheckpointManager::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

std::optional<int64_t> CheckpointManager::last_committed() const {
  const std::lock_guard lock(mutex_);
  return last_committed_;
}

void CheckpointManager::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return next_ || stopping_; });
    if (!next_) return;
    lock.unlock();
    save(*next_);  // only this thread resets next_, so it stays put without the lock
    lock.lock();
    next_.reset();
    changed_.notify_all();
  }
}

void CheckpointManager::save(const Snapshot& snapshot) {
  bool committed = false;
  try {
    write_checkpoint(files_, directory_, snapshot);
    committed = true;
    {
      const std::lock_guard lock(mutex_);
      last_committed_ = snapshot.step;
    }
    apply_keep_rules(files_, directory_, rules_, snapshot.step);
  } catch (const std::exception& error) {
    const std::string_view what = committed ? "old checkpoints could not be removed after saving step {}: {}"
                                            : "the checkpoint of step {} could not be saved: {}";
    const std::lock_guard lock(mutex_);
    unpolled_.push_back({snapshot.step, committed, fmt::format(fmt::runtime(what), snapshot.step, error.what())});
    ++failures_;
  }
}

}  // namespace tessera::checkpoint
