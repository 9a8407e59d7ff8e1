#include "train/loop/saver.h"

#include <fmt/format.h>

#include <future>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "store/encoding/digest.h"
#include "store/servers/buckets.h"
#include "train/workdir/best_link.h"
#include "train/workdir/workdir.h"

namespace tessera::train {
namespace {

std::optional<int64_t> first_of(const std::vector<int64_t>& steps) {
  return steps.empty() ? std::nullopt : std::optional(steps.front());
}

// Of a step, in the workdir.
std::string place_of(int64_t step) { return store::join_path("checkpoints", checkpoint::step_directory(step)); }

// At the coordinator of the run. `start` is of this start alone: what is said there stays for a day, and whoever starts the run again
// may give it the same --run-id.
class WordsOfMembers final : public checkpoint::SaveWords {
 public:
  WordsOfMembers(std::shared_ptr<group::Members> members, std::string start)
      : members_(std::move(members)), start_(std::move(start)) {}
  void put(const std::string& name, const std::string& text) override { members_->put(key(name), text); }
  std::optional<std::string> find(const std::string& name) override { return members_->find(key(name)); }

 private:
  std::string key(const std::string& name) const { return fmt::format("save/{}/{}", start_, name); }

  const std::shared_ptr<group::Members> members_;
  const std::string start_;
};

// Waits for the line where there is one. Throws a data Error where writing it has failed.
void expect_written(const std::shared_future<void>& line) {
  if (!line.valid()) return;
  try {
    line.get();
  } catch (const std::future_error&) {
    throw data_error("the last line of metrics.jsonl was not written");
  }
}

}  // namespace

Saver::Saver(Run& run, std::optional<std::chrono::seconds> time)
    : run_(run),
      time_(time),
      best_(run.recipe.best, run.recipe.checkpoint.keep_best, run.progress,
            {[this](int64_t step) { return may_be_there(step); }, [this] { wait(); }}) {}

checkpoint::KeepRules Saver::rules() const { return {run_.recipe.checkpoint.keep, run_.recipe.keep_every}; }

// A bucket that doesn't answer has forgotten none: saves fail meanwhile, and the run goes on.
bool Saver::may_be_there(int64_t step) const {
  if (run_.bucket.empty()) return run_.has_checkpoint(step);
  try {
    return run_.has_checkpoint(step);
  } catch (const Error&) {
    return true;
  }
}

// All processes of a run have to see it alike: those that save together know it without looking.
bool Saver::has_saved(int64_t step) const {
  if (!run_.saves_jointly) return run_.has_checkpoint(step);
  return checkpoints_->last_committed() == step || (resumed_from_ == step && failures() == 0);
}

void Saver::resume() {
  resumed_from_ = run_.progress.step;
  best_.resume();
}

void Saver::tidy() const {
  if (run_.bucket.empty()) link_best(run_.workdir.path(), first_of(best_.steps()));
  try {
    const std::string directory = checkpoints_directory();
    checkpoint::apply_keep_rules(store::files_at(directory), directory, rules(), run_.progress.step, run_.name, best_.steps());
  } catch (const Error& error) {
    log_warning(fmt::format("older checkpoints stay: {}", error.message()));
  }
}

void Saver::open(const state::DeviceArrays& state) {
  state_ = &state;
  if (!run_.saves_jointly) {
    checkpoints_.emplace(run_.workdir.checkpoints(), rules());
    return;
  }
  const std::string start = run_.processes.from_leader("saves", store::random_hex(8));
  writers_ = {.index = run_.processes.index(), .count = run_.processes.count()};
  writers_.alone = alone_;
  writers_.words = std::make_shared<WordsOfMembers>(run_.processes.members(), start);
  writers_.directory_of = run_.directory_of;
  if (run_.copy && !run_.bucket.empty()) writers_.expect_own = [copy = run_.copy] { copy->expect_held(); };
  const std::string directory = checkpoints_directory();
  checkpoints_.emplace(directory, rules(), store::files_at(directory), checkpoint::kMaxBytesInFlight, writers_);
}

// Where all processes write them, or the leader.
std::string Saver::checkpoints_directory() const {
  return store::join_path(run_.bucket.empty() ? run_.home : run_.bucket, "checkpoints");
}

void Saver::save(bool owed, const std::function<void()>& line) {
  // Broken where an exception comes first: then nothing is committed.
  std::promise<void> written;
  if (run_.processes.leads() || run_.saves_jointly)
    start_save(owed, line ? written.get_future().share() : std::shared_future<void>());
  if (line) line();
  written.set_value();
}

// It is committed when there is nothing to wait for in `line`.
void Saver::start_save(bool owed, const std::shared_future<void>& line) {
  state::Progress& progress = run_.progress;
  progress.times = run_.reporter.times();
  const Reporter::Timed timed(run_.reporter, &state::RunTimes::save, "save");
  const auto began = std::chrono::steady_clock::now();
  run_.save_agreed = false;
  run_.workdir.renew_lock();
  best_.before_save();
  progress.owed = owed;
  progress.seconds = run_.reporter.uptime();
  // The copies are made while save_async runs: the next step takes the memory of these buffers over.
  checkpoint::Snapshot snapshot = state::state_snapshot(run_.layout, *state_, writers_);
  snapshot.step = progress.step;
  snapshot.state_json = state::to_json(progress, run_.description);
  snapshot.run = run_.name;
  snapshot.best = best_.steps();
  snapshot.ended = [asked = run_.control.take(), step = progress.step](const std::string& failure) {
    for (const RunControl::Saved& saved : asked) saved({step, place_of(step), failure});
  };
  if (!run_.processes.leads()) return checkpoints_->save_async(std::move(snapshot));
  snapshot.before_commit = [&run = run_, line] {
    expect_written(line);
    run.workdir.expect_in_place();
    run.reporter.writer().flush();
    if (!run.bucket.empty()) run.copy->copy_before_commit();
  };
  snapshot.after_commit = [&run = run_, &time = time_, began, best = first_of(snapshot.best)] {
    time.took(std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began));
    if (run.bucket.empty()) link_best(run.workdir.path(), best);
  };
  checkpoints_->save_async(std::move(snapshot));
}

void Saver::save_unless_saved() {
  const Reporter::Pause pause(run_.reporter);
  run_.profiles.interrupted();
  wait();
  const int64_t step = run_.progress.step;
  if (!has_saved(step)) return save(/*owed=*/false);
  for (const RunControl::Saved& saved : run_.control.take()) saved({step, place_of(step), ""});
}

void Saver::report(bool ended) {
  if (const auto slow = time_.warning()) log_warning(*slow);
  if (checkpoints_->last_committed()) run_.workdir.mark_saved();
  while (const auto failure = checkpoints_->poll_failure()) {
    const bool lost = ended && !failure->committed && last_saved().value_or(-1) < failure->step;
    if (lost) {
      const auto from = last_saved();
      log_error(failure->message + (from ? fmt::format("; the same command goes on from step {}", *from)
                                         : "; the run has no checkpoint, and the same command starts it again"));
    } else {
      log_warning(failure->message + (failure->committed ? "" : "; the run goes on, and earlier checkpoints are as they were"));
    }
  }
}

void Saver::wait() { checkpoints_->wait(); }

std::optional<int64_t> Saver::last_saved() const {
  return checkpoints_->last_committed() ? checkpoints_->last_committed() : resumed_from_;
}

std::optional<int64_t> Saver::to_go_on_from() {
  best_.forget_missing();
  const auto& best = run_.progress.best_checkpoint;
  return best ? std::optional(best->step) : last_saved();
}

}  // namespace tessera::train
