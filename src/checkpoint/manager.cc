#include "checkpoint/manager.h"

#include <algorithm>
#include <deque>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/system/process.h"
#include "base/system/spans.h"
#include "base/text/json.h"
#include "checkpoint/commit.h"
#include "checkpoint/directories.h"
#include "store/url.h"

namespace tessera::checkpoint {
namespace {

// Of the checkpoints there, whole or not.
std::vector<int64_t> steps_in(store::FileSystem& files, const std::string& directory) {
  std::vector<int64_t> steps;
  for (const store::FileInfo& entry : files.list(directory)) {
    const auto name = parse_directory_name(entry.name);
    if (name && !name->writer && entry.directory) steps.push_back(name->step);
  }
  return steps;
}

void ignore_errors(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error&) {
    // What was left over is removed by the next sweep.
  }
}

int64_t bytes_of(const std::vector<HostTensor>& group) {
  int64_t bytes = 0;
  for (const HostTensor& tensor : group) bytes += static_cast<int64_t>(tensor.data.size());
  return bytes;
}

void check_snapshot(const Snapshot& snapshot) {
  TESSERA_CHECK(snapshot.step >= 0 && snapshot.all_groups() <= kMaxGroups && read_json(snapshot.state_json).problem.empty(),
                "step {}, {} groups", snapshot.step, snapshot.all_groups());
}

std::vector<HostTensor> read_group(const SnapshotGroup& group) {
  std::vector<HostTensor> tensors = group.read();
  TESSERA_CHECK(bytes_of(tensors) == group.bytes, "a group of {} bytes has {}", group.bytes, bytes_of(tensors));
  return tensors;
}

}  // namespace

std::string write_checkpoint(store::FileSystem& files, const std::string& directory, const Snapshot& snapshot) {
  check_snapshot(snapshot);
  const size_t groups = std::max<size_t>(1, snapshot.groups.size());
  CheckpointWriter writer(files, directory, snapshot.step, {.first = 0, .own = groups, .all = groups}, snapshot.run);
  if (snapshot.groups.empty()) writer.write_group({});
  for (const SnapshotGroup& group : snapshot.groups) writer.write_group(read_group(group));
  return writer.commit(snapshot.state_json, snapshot.before_commit);
}

void apply_keep_rules(store::FileSystem& files, const std::string& directory, const KeepRules& rules, int64_t newest,
                      const std::string& run, const std::vector<int64_t>& best) {
  std::vector<int64_t> whole;
  for (const int64_t step : steps_in(files, directory)) {
    if (step >= newest) continue;
    const std::string name = step_directory(step);
    const Condition condition = condition_of(files, store::join_path(directory, name), run);
    if (condition == Condition::kWhole) whole.push_back(step);
    if (condition == Condition::kHalfRemoved) remove_checkpoint(files, directory, name);
  }
  std::sort(whole.begin(), whole.end(), std::greater<>());
  for (size_t i = 0; i < whole.size(); ++i) {
    const bool recent = static_cast<int64_t>(i) + 1 < rules.keep_last;
    const bool kept_for_ever = rules.keep_every_steps > 0 && whole[i] % rules.keep_every_steps == 0;
    const bool good = std::ranges::find(best, whole[i]) != best.end();
    if (!recent && !kept_for_ever && !good) remove_checkpoint(files, directory, step_directory(whole[i]));
  }
}

void keep_only(store::FileSystem& files, const std::string& directory, const std::vector<int64_t>& kept, int64_t newest,
               const std::string& run) {
  for (const int64_t step : steps_in(files, directory)) {
    if (step >= newest || std::ranges::find(kept, step) != kept.end()) continue;
    const std::string name = step_directory(step);
    if (condition_of(files, store::join_path(directory, name), run) != Condition::kOtherRun)
      remove_checkpoint(files, directory, name);
  }
}

void sweep_leftovers(store::FileSystem& files, const std::string& directory) {
  ignore_errors([&] {
    for (const store::FileInfo& entry : files.list(directory)) {
      const auto name = parse_directory_name(entry.name);
      if (!name || !name->writer || !process_is_dead(*name->writer)) continue;
      ignore_errors([&] { remove_checkpoint(files, directory, entry.name); });
    }
  });
}

// Made and filled by save_async(), taken apart by the writer thread. `mutex_` guards what changes after begin().
struct CheckpointManager::Save {
  int64_t step = 0;
  FileNumbers numbers;
  std::string state_json, run;
  std::vector<int64_t> best;
  std::function<void()> before_commit, after_commit;
  std::function<void(const std::string&)> ended;
  std::string outcome = "the save was given up";  // for `ended`
  std::deque<std::vector<HostTensor>> read;       // and not taken by the writer yet
  int64_t bytes_in_flight = 0;                    // being read, read, or being written
  bool reading = true;
  bool given_up = false;  // a `read` threw: there is nothing to commit
  bool failed = false;    // the writer threw: there is nothing to read for
};

CheckpointManager::CheckpointManager(std::string directory, KeepRules rules, store::FileSystem& files,
                                     int64_t max_bytes_in_flight, Writers writers)
    : directory_(std::move(directory)),
      rules_(rules),
      files_(files),
      max_bytes_in_flight_(max_bytes_in_flight),
      writers_(std::move(writers)) {
  if (rules.keep_last < 1) throw usage_error("at least one checkpoint must be kept", "checkpoint.keep", "set it to 1 or more");
  if (rules.keep_every_steps < 0) throw usage_error("the interval of kept checkpoints cannot be negative", "checkpoint");
  files_.make_directories(directory_);
  if (!store::is_remote(directory_)) held_ = files_.open_directory(directory_);
  if (held_ && writers_.leads_directory()) sweep_leftovers(files_, directory_);
  writer_ = std::thread([this] { run(); });
}

CheckpointManager::~CheckpointManager() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  writer_.join();
  if (bug_) std::rethrow_exception(bug_);  // out of a destructor: the program ends here, with a crash file
  for (const SaveFailure& failure : unpolled_) log_warning(failure.message);
}

void CheckpointManager::save_async(Snapshot snapshot) {
  check_snapshot(snapshot);
  if (snapshot.all_groups() == 0) snapshot.add({});
  begin(snapshot);
  try {
    for (SnapshotGroup& group : snapshot.groups) {
      if (!wait_for_room(group.bytes)) break;
      std::vector<HostTensor> tensors = read_group(group);
      group.read = nullptr;  // with the memory that it may hold
      hand_over(std::move(tensors));
    }
  } catch (...) {
    end_reading(/*given_up=*/true);
    wait();
    throw;
  }
  end_reading(/*given_up=*/false);
}

void CheckpointManager::begin(Snapshot& snapshot) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !save_; });
    rethrow_bug();
    save_ = std::make_unique<Save>();
    save_->step = snapshot.step;
    save_->numbers = {snapshot.groups_before, snapshot.groups.size(), snapshot.all_groups()};
    save_->state_json = std::move(snapshot.state_json);
    save_->run = std::move(snapshot.run);
    save_->best = snapshot.best;
    save_->before_commit = std::move(snapshot.before_commit);
    save_->after_commit = std::move(snapshot.after_commit);
    save_->ended = std::move(snapshot.ended);
  }
  changed_.notify_all();
}

// Takes the room; false when the writer failed.
bool CheckpointManager::wait_for_room(int64_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return save_->failed || save_->bytes_in_flight == 0 || bytes <= max_bytes_in_flight_ - save_->bytes_in_flight;
  });
  save_->bytes_in_flight += bytes;
  return !save_->failed;
}

void CheckpointManager::hand_over(std::vector<HostTensor> group) {
  {
    const std::lock_guard lock(mutex_);
    if (!save_->failed) save_->read.push_back(std::move(group));
  }
  changed_.notify_all();
}

void CheckpointManager::end_reading(bool given_up) {
  {
    const std::lock_guard lock(mutex_);
    save_->reading = false;
    save_->given_up = given_up;
  }
  changed_.notify_all();
}

void CheckpointManager::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !save_; });
  rethrow_bug();
}

// Under the lock.
void CheckpointManager::rethrow_bug() {
  if (bug_) std::rethrow_exception(std::exchange(bug_, nullptr));
}

std::optional<SaveFailure> CheckpointManager::poll_failure() {
  const std::lock_guard lock(mutex_);
  rethrow_bug();
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
  name_thread("checkpoint writer");
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return save_ || stopping_; });
      if (!save_) return;
    }
    try {
      save();
    } catch (...) {
      stop_for_bug(std::current_exception());
    }
    finish_save();
  }
}

// What save_async() does not change after begin() is read without the lock.
void CheckpointManager::save() {
  const int64_t step = save_->step;
  CheckpointWriter writer(files_, directory_, step, save_->numbers, save_->run, writers_, saves_++, held_.get());
  if (!write(writer)) return;
  {
    const std::lock_guard lock(mutex_);
    last_committed_ = step;
    save_->outcome.clear();
  }
  if (save_->after_commit) save_->after_commit();
  try {
    remove_old(writer);
  } catch (const Error& error) {
    fail(error.what(), /*committed=*/true);
  }
}

// On several hosts the first one's directory says what stays: one host may have what another one lacks.
void CheckpointManager::remove_old(CheckpointWriter& writer) {
  if (!writers_.leads_directory()) return;
  if (!writers_.leads()) {
    const auto kept = writer.await_kept();
    if (kept) keep_only(files_, directory_, *kept, save_->step, save_->run);
    return;
  }
  try {
    if (writers_.expect_own) writers_.expect_own();
    apply_keep_rules(files_, directory_, rules_, save_->step, save_->run, save_->best);
    writer.tell_kept(steps_in(files_, directory_));
  } catch (const Error&) {
    writer.tell_kept(std::nullopt);
    throw;
  }
}

// True when it was committed. What a disk refuses, or a system that has no memory left, costs this save; anything else is a
// bug.
bool CheckpointManager::write(CheckpointWriter& writer) {
  try {
    expect_directory();
    if (!write_groups(writer)) return false;
    const PhaseSpan span("commit", save_->step, SpanKind::kSave);
    writer.commit(save_->state_json, save_->before_commit);
    return true;
  } catch (const Error& error) {
    fail(writer.give_up(error.what()), /*committed=*/false);
  } catch (const std::bad_alloc& error) {
    fail(writer.give_up(error.what()), /*committed=*/false);
  }
  return false;
}

void CheckpointManager::expect_directory() const {
  if (!held_) return;
  const auto there = files_.info(directory_);
  if (there && there->id == held_->id()) return;
  throw data_error(
      fmt::format("`{}` was {} meanwhile, and nothing is written in its place; once it is back, saves go there again",
                  directory_, there ? "replaced" : "removed or renamed"));
}

// False when reading was given up.
bool CheckpointManager::write_groups(CheckpointWriter& writer) {
  std::vector<HostTensor> group;
  while (next_group(group)) {
    const int64_t bytes = bytes_of(group);
    {
      const PhaseSpan span("write and sync", save_->step, SpanKind::kSave);
      writer.write_group(group);
    }
    group.clear();  // before the room is given back
    {
      const std::lock_guard lock(mutex_);
      save_->bytes_in_flight -= bytes;
    }
    changed_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  return !save_->given_up;
}

// Waits for a group that was read; false after the last one.
bool CheckpointManager::next_group(std::vector<HostTensor>& group) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !save_->read.empty() || !save_->reading; });
  if (save_->read.empty() || save_->given_up) return false;
  group = std::move(save_->read.front());
  save_->read.pop_front();
  return true;
}

void CheckpointManager::fail(const std::string& message, bool committed) {
  {
    const std::lock_guard lock(mutex_);
    const std::string_view what = committed ? "old checkpoints could not be removed after saving step {}: {}"
                                            : "the checkpoint of step {} could not be saved: {}";
    unpolled_.push_back({save_->step, committed, fmt::format(fmt::runtime(what), save_->step, message)});
    ++failures_;
    if (!committed) save_->outcome = unpolled_.back().message;
    give_up_reading();
  }
  changed_.notify_all();
}

void CheckpointManager::stop_for_bug(std::exception_ptr bug) {
  {
    const std::lock_guard lock(mutex_);
    bug_ = std::move(bug);
    give_up_reading();
  }
  changed_.notify_all();
}

// Under the lock: nothing more is read for this save.
void CheckpointManager::give_up_reading() {
  save_->failed = true;
  save_->read.clear();
}

// The save goes when its reader is through with it too.
void CheckpointManager::finish_save() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !save_->reading; });
  }
  if (save_->ended) save_->ended(save_->outcome);
  {
    const std::lock_guard lock(mutex_);
    save_.reset();
  }
  changed_.notify_all();
}

}  // namespace tessera::checkpoint
