#include "train/loop/start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text/text.h"
#include "checkpoint/commit.h"
#include "checkpoint/directories.h"
#include "checkpoint/remote/run_objects.h"
#include "recipe/data_names.h"
#include "recipe/preprocessing_notes.h"
#include "recipe/run_identity.h"
#include "state/model_source.h"
#include "state/run_steps.h"
#include "state/saved_parts.h"
#include "train/loop/compiling.h"
#include "train/loop/host_checkpoints.h"

namespace tessera::train {
namespace {

std::optional<checkpoint::LoadedCheckpoint> latest_checkpoint(Workdir& workdir) {
  checkpoint::LatestCheckpoint latest = checkpoint::find_latest(workdir.checkpoints());
  for (const checkpoint::RejectedCheckpoint& bad : latest.rejected) workdir.pass_over(bad);
  if (!latest.checkpoint) workdir.expect_nothing_lost();
  return std::move(latest.checkpoint);
}

Error no_such_checkpoint(const std::string& workdir, int64_t step) {
  return checkpoint::no_such_step({workdir, step}, state::saved_steps(workdir).value_or(std::vector<int64_t>{}), "--from-step");
}

checkpoint::LoadedCheckpoint checkpoint_of(const Workdir& workdir, int64_t step) {
  const std::string path = store::join_path(workdir.checkpoints(), checkpoint::step_directory(step));
  if (!store::local_files().info(store::join_path(path, checkpoint::kCommitFile)))
    throw no_such_checkpoint(workdir.path(), step);
  return checkpoint::load(path);
}

}  // namespace

StartingPoint::StartingPoint(Run& run, bool evaluates) : run_(run) {
  const std::optional<std::string>& other = run_.recipe.run.resume;
  if (!run_.bucket.empty()) {
    find_in_bucket();
  } else if (run_.on_several_hosts()) {
    find_on_hosts();
  } else if (run_.processes.leads()) {
    checkpoint_ = run_.from_step ? checkpoint_of(run_.workdir, *run_.from_step) : latest_checkpoint(run_.workdir);
  }
  const bool own = checkpoint_.has_value();
  if (own && run_.processes.leads()) {
    data_changes_ = recipe::check_run(*checkpoint_, run_.description, run_.recipe.data, run_.workdir.data_names());
    if (!checkpoint_->run.empty()) run_.name = checkpoint_->run;  // an earlier version may have named the same run otherwise
  }
  if (run_.processes.leads() && !own && other) checkpoint_ = state::open_checkpoint(*other, "resume");
  const auto check_arrays = [&] { state::check_arrays(run_.layout, checkpoint_->arrays, checkpoint_->path); };
  if (checkpoint_ && run_.processes.leads()) check_arrays();
  const std::string whose = run_.processes.from_leader("whose state", own ? "own" : "");
  run_.name = run_.processes.from_leader("name", run_.name);   // all write it into checkpoints
  if (checkpoint_ && !run_.processes.leads()) check_arrays();  // after the leader, which may have more to say
  if (run_.saves_jointly) open_leaders_checkpoint(!whose.empty());
  const std::string state = run_.processes.from_leader("state", checkpoint_ ? checkpoint_->state_json : "");
  if (state.empty()) {
    run_.progress.owed = evaluates;
  } else if (whose.empty()) {
    take_up(state);
  } else {
    run_.progress = state::parse_progress(state, checkpoint_ ? checkpoint_->path : run_.home);
    resumed_ = true;
  }
}

// Each process fetches the files that have something for its devices.
void StartingPoint::find_in_bucket() {
  if (run_.copy) run_.copy->leave_checkpoints();  // that they are there for the others
  run_.processes.members()->barrier("checkpoints", kFetchPatience);
  const remote::RunObjects there = run_.processes.leads() ? remote::list_run(run_.bucket) : remote::RunObjects();
  const state::HeldParts held(run_.layout, run_.processes.index(), run_.processes.count());
  find_newest({run_.bucket, [&](int64_t before) { return there.newest(before); },
               [&](int64_t step) {
                 return remote::load_checkpoint(
                     run_.bucket, step, [&](const std::string& array, const Placed& box) { return held.has(array, box); });
               }});
}

void StartingPoint::find_on_hosts() {
  HostCheckpoints hosts(run_);
  const auto newest = [&](int64_t before) -> std::optional<int64_t> {
    if (!run_.from_step || !run_.processes.leads()) return hosts.newest(before);
    if (before <= *run_.from_step) return std::nullopt;
    if (hosts.newest(*run_.from_step + 1) != run_.from_step) throw no_such_checkpoint(run_.home, *run_.from_step);
    return run_.from_step;
  };
  find_newest(
      {run_.home, newest, [&](int64_t step) { return hosts.load(step); }, [&](int64_t step) { hosts.put_aside(step); }});
}

// The newest one that is whole as far as the processes have looked. One that is damaged for any of them is passed over by all.
void StartingPoint::find_newest(const Checkpoints& there) {
  const bool leads = run_.processes.leads();
  std::string reasons;
  std::optional<int64_t> step = there.newest(std::numeric_limits<int64_t>::max());
  for (int64_t tries = 0;; ++tries) {
    const std::string named = run_.processes.from_leader(fmt::format("step {}", tries), step ? std::to_string(*step) : "");
    if (named.empty()) break;
    const int64_t wanted = std::stoll(named);
    const std::string problem = tell_all(tries, load(there, wanted));
    if (problem.empty()) return;
    checkpoint_.reset();
    log_warning(fmt::format("step {} in `{}` is passed over: {}", wanted, there.where, problem));
    if (there.pass_over) there.pass_over(wanted);
    reasons.append("\n  ").append(problem);
    step = there.newest(wanted);
  }
  if (!leads) return;
  if (!reasons.empty()) {
    throw data_error(fmt::format("no checkpoint in `{}` can be read:{}", there.where, reasons), {},
                     "restore one from a copy, or name another --workdir to start from the beginning");
  }
  run_.workdir.expect_nothing_lost();
}

// Gives how it is damaged, as far as this process has to read it; nothing where checkpoint_ has it.
std::string StartingPoint::load(const Checkpoints& there, int64_t step) {
  try {
    checkpoint_ = there.load(step);
    return {};
  } catch (const Error& error) {
    if (!checkpoint::is_damage(error)) throw;  // a server that does not answer has lost nothing
    return error.message();
  }
}

// Gives the first problem that one of the processes has, once all have said theirs; nothing where there is none.
std::string StartingPoint::tell_all(int64_t tries, const std::string& problem) {
  group::Members& members = *run_.processes.members();
  const auto key = [&](int64_t process) { return fmt::format("fetched/{}/{}", tries, process); };
  members.put(key(run_.processes.index()), problem);
  members.barrier(fmt::format("fetched/{}", tries), kFetchPatience);
  for (int64_t process = 0; process < run_.processes.count(); ++process) {
    const std::string its = members.get(key(process), std::chrono::minutes(1));
    if (!its.empty()) return fmt::format("process {}: {}", process, its);
  }
  return {};
}

// Each process reads what its devices hold.
void StartingPoint::open_leaders_checkpoint(bool own) {
  namespace fs = std::filesystem;
  const std::string path =
      run_.processes.from_leader("checkpoint", checkpoint_ ? fs::absolute(checkpoint_->path).string() : "");
  if (path.empty() || checkpoint_) return;
  checkpoint_ = own ? checkpoint::load(path) : state::open_checkpoint(*run_.recipe.run.resume, "resume");
  state::check_arrays(run_.layout, checkpoint_->arrays, path);
}

// Of another run: where it stands in its schedule. Its scores and times are its own.
void StartingPoint::take_up(const std::string& state) {
  const std::string& source = *run_.recipe.run.resume;
  const state::Progress other = state::parse_progress(state, source);
  if (other.step >= run_.recipe.total) {
    throw usage_error(fmt::format("`{}` is at step {}, and this run ends after step {}", source, human_count(other.step),
                                  human_count(run_.recipe.total)),
                      "resume", "set a larger `total`, which counts from step 0, or an earlier RUN@STEP");
  }
  run_.progress.step = other.step;
  run_.progress.examples_seen = other.examples_seen;
  run_.progress.plateau = other.plateau;
  run_.progress.owed = run_.recipe.run.eval_at_start;
  began_at_ = other.step;
}

void StartingPoint::announce() const {
  const recipe::Recipe& recipe = run_.recipe;
  for (const config::Difference& change : run_.workdir.changes()) {
    log_note(fmt::format("`{}` is now {} (was {})", change.key, recipe::shown_value(change.right),
                         recipe::shown_value(change.left)));
  }
  log_line(fmt::format("{}   {}", recipe.model->describe(), state::parameter_summary(run_.layout)));
  if (recipe.teacher) log_line(fmt::format("teacher {}", recipe.teacher->model->describe()));
  if (run_.layout.sharded()) {
    log_line(fmt::format("{} devices   mesh {}   {}", run_.layout.devices(), run_.layout.mesh.text(), recipe.sharding.preset));
  }
  std::string kinds = recipe.class_names.empty() ? "" : fmt::format(", {} classes", recipe.class_names.size());
  for (const objectives::TokenInput& tokens : recipe.objective->inputs().tokens) {
    kinds += fmt::format(", {} of {} tokens", tokens.name, tokens.length);
  }
  const std::string total = human_count(recipe.total);
  const std::string epochs = fmt::format("{:.4g}", recipe.epochs(recipe.total));
  log_line(fmt::format("{}   {} images{}   batch {}, {} steps ({} epoch{})", recipe.data.name(),
                       human_count(recipe.examples_per_epoch), kinds, recipe.batch, total, epochs, epochs == "1" ? "" : "s"));
  for (const std::string& note : recipe::evaluation_notes(recipe)) log_note(note);
  tell_of_data();
  if (began_at_) {
    log_line(fmt::format("begins at step {} of {}, with the state of {}", human_count(*began_at_), total, *recipe.run.resume));
  } else if (run_.progress.step > 0 || run_.progress.owed) {
    log_line(fmt::format("continues {} from step {} of {}", run_.workdir.path(), human_count(run_.progress.step), total));
  }
}

void StartingPoint::put_later_aside() const {
  if (!run_.from_step || !run_.leads_directory()) return;
  std::vector<int64_t> later = state::saved_steps(run_.home).value_or(std::vector<int64_t>{});
  std::erase_if(later, [&](int64_t step) { return step <= *run_.from_step; });
  if (later.empty()) return;
  std::string last;
  for (auto step = later.rbegin(); step != later.rend(); ++step) {  // the newest first: it counts
    last = checkpoint::put_aside(store::local_files(), store::join_path(run_.home, "checkpoints"),
                                 checkpoint::step_directory(*step), "later");
  }
  if (!run_.processes.leads()) return;
  log_note(fmt::format("the run goes back before step{0} {1}, whose checkpoint{0} {2} `{3}` now; nothing reads or removes {4}",
                       later.size() == 1 ? "" : "s", fmt::join(later, ", "), later.size() == 1 ? "is" : "are named as", last,
                       later.size() == 1 ? "it" : "them"));
}

void StartingPoint::tell_of_data() const {
  if (!data_changes_.training.empty()) {
    log_note(
        fmt::format("the training data changed, as `data.on_change` allows; from here on images come in an order of those "
                    "that are there{}",
                    data_changes_.training));
  }
  for (const std::string& name : data_changes_.evaluators) {
    log_warning(fmt::format(
        "the data of `eval.{}` are others than before: its scores do not compare with those of earlier steps", name));
  }
}

void StartingPoint::keep_data_names() const {
  const bool listed = resumed_ && data_changes_.training.empty() && !run_.workdir.data_names().empty();
  if (listed || !run_.processes.leads()) return;
  if (const auto names = recipe::data_names(run_.recipe.data)) run_.workdir.write_data_names(recipe::names_text(*names));
}

void StartingPoint::load_weights() {
  const recipe::Recipe& recipe = run_.recipe;
  if (has_state() || !recipe.model_init) return;
  weights_.resize(run_.layout.params);
  for (const std::string& note : state::init_from(*recipe.model_init, *recipe.model, run_.layout, weights_)) log_note(note);
  if (const auto note = recipe::weights_note(recipe, state::preprocessing_of(recipe.model_init->from))) log_note(*note);
}

void StartingPoint::put(StepState& state, std::future<Compiled>& init_program, bool parameters) {
  has_state() ? put_checkpoint(state) : draw(state, init_program, parameters);
}

void StartingPoint::put_checkpoint(StepState& state) {
  const Reporter::Timed timed(run_.reporter, &state::RunTimes::restore);
  state.read([&](size_t i, const Placed& box, std::byte* out) {
    const state::StateEntry& entry = run_.layout.entries[i];
    if (checkpoint_) state::read_entry(entry, checkpoint_->arrays, box, out);
    if (run_.saves_jointly) return;
    run_.processes.copy_from_leader({out, static_cast<size_t>(byte_count({entry.type.dtype, box.dims}))});
  });
  if (checkpoint_) checkpoint_->check();
  checkpoint_.reset();
}

void StartingPoint::draw(StepState& state, std::future<Compiled>& init_program, bool parameters) {
  const ReadyProgram init = take_program(run_, init_program, "init");
  const std::vector<state::Moments> moments = state.draw(*init.executable, run_.recipe.run.seed, weights_);
  weights_ = {};
  const std::string table = state::parameter_table(run_.layout, moments);
  if (parameters) log_line(table);
  if (!run_.reporter.sinks().empty()) {
    run_.reporter.sinks().put(monitor::Text{"model", monitor::as_code(run_.recipe.model->describe() + "\n" + table)});
  }
}

}  // namespace tessera::train
