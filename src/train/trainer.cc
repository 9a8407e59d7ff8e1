#include "train/trainer.h"

#include <fmt/format.h>

#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/system/file_calls.h"
#include "base/system/innermost_phase.h"
#include "base/system/spans.h"
#include "monitor/plot.h"
#include "pjrt/plugin/error.h"
#include "recipe/preprocessing_notes.h"
#include "train/control/control_socket.h"
#include "train/loop/after_step.h"
#include "train/loop/compiling.h"
#include "train/loop/loop_input.h"
#include "train/loop/run_evaluators.h"
#include "train/loop/run_pictures.h"
#include "train/loop/saver.h"
#include "train/loop/start.h"
#include "train/loop/training_step.h"
#include "train/process/hang_watch.h"
#include "train/process/loop_phases.h"
#include "train/process/stop_watch.h"
#include "train/run/run.h"
#include "train/step/compile.h"
#include "train/step/program_options.h"
#include "train/step/step.h"
#include "train/step/step_state.h"
#include "train/step/trace.h"
#include "train/workdir/disk_space.h"

namespace tessera::train {
namespace {

void draw_plot(const Run& run) {
  try {
    run.workdir.expect_in_place();
    monitor::write_plot(run.workdir.path());
  } catch (const Error& error) {
    log_warning(fmt::format("no plot was drawn: {}", error.message()));
  }
}

TrainResult result_of(const Run& run, Exit exit, NamedScores scores = {}) {
  TrainResult result;
  const state::Progress& progress = run.progress;
  result.exit = exit;
  result.stopped_by = run.stop.name();
  result.paused = run.at_pause() && !run.at_end() && !run.stop.requested();
  result.step = progress.step;
  result.total = run.recipe.total;
  result.classifier = run.recipe.model->classifier() != nullptr;
  result.captioner = run.recipe.model->captioner() != nullptr;
  result.evaluators = !run.recipe.evals.empty();
  if (!result.evaluators) result.pp = recipe::size_and_values(run.recipe);
  result.workdir = run.home;
  const bool tells = run.bucket.empty() || run.processes.leads();  // of the others nobody asks, and each look costs
  if (tells && run.has_checkpoint(progress.step)) result.checkpoint = run.checkpoint_path(progress.step);
  const auto& best = progress.best_checkpoint;
  if (tells && best && best->step != progress.step && run.has_checkpoint(best->step)) {
    result.best = fmt::format("{} ({} {:.4g})", run.checkpoint_path(best->step), best->metric, best->value);
  }
  result.seconds = run.client ? run.reporter.uptime() : progress.seconds;
  result.scores = std::move(scores);
  return result;
}

// Of a run that has nothing to do, but for what a kill right after its last save kept it from.
TrainResult finished_before(Run& run, const Saver& saver) {
  TrainResult result = result_of(run, Exit::kDone);
  result.finished_before = run.at_end();
  if (run.processes.leads() && result.finished_before) {
    run.reporter.catch_up(run.progress);
    saver.tidy();
    draw_plot(run);
  }
  run.processes.leave();
  return result;
}

void warn_of_disk(const Run& run, const DiskNeed& need) {
  if (run.bucket.empty()) {  // else the disk has no checkpoints
    const std::string& disk = run.leads_directory() ? run.home : run.workdir.path();
    if (const auto warning = space_warning(need, disk)) log_warning(*warning);
  }
  if (const auto warning = file_size_warning(need)) log_warning(*warning);
}

struct Programs {
  std::future<Compiled> step, init;  // no `init` where there is a state to start from
};

// The training step's program and what comes before its first one. `named`: a profile needs the names of the step's
// instructions, which the plugin has for what it compiled and not for what it loaded from the cache.
Programs start_programs(Run& run, const Hardware& hardware, Compiler& compiler, RunPictures& pictures, bool draws, bool named) {
  const recipe::Recipe& recipe = run.recipe;
  const ProgramOptions options = train_options(recipe, hardware);
  const TensorType images = image_batch(*recipe.model, recipe.program_rows());
  Programs programs;
  programs.step = compiler.start(train_program(*recipe.model, run.layout, *recipe.optimizer, options),
                                 named ? pjrt::ExecutableCache("") : run.cache,
                                 arguments_of(run.layout, run.layout.entries.size(), images));
  pictures.start(compiler, options);
  if (draws) {
    const TensorType none = image_batch(*recipe.model, 0);
    programs.init = compiler.start(init_program(recipe.specs, run.layout), run.cache, arguments_of(run.layout, 0, none));
  }
  return programs;
}

// The training step's; nothing when a signal came first.
std::optional<ReadyProgram> await_step_program(Run& run, std::future<Compiled>& program) {
  if (!wait_for_program(run, program, kTrainStep)) return std::nullopt;
  ReadyProgram ready = take_program(run, program, kTrainStep);
  run.profiles.watch(ready.executable);
  run.record.started(run.recipe, *run.client, *ready.executable, ready.report);
  return ready;
}

// Waits for a batch, and saves what is asked for meanwhile. Nothing when the run is to stop.
std::optional<DeviceBatch> await_batch(Run& run, LoopInput& input, Saver& saver) {
  while (!run.stop.requested()) {
    if (auto batch = input.next(nullptr)) return batch;
    if (run.save_wanted()) saver.save_unless_saved();
  }
  return std::nullopt;
}

// The step on `batch`, which becomes the next one; where that does not come it is empty. What the step before measured is read
// while the devices work, or before `pictures` have work of their own.
DispatchedStep one_step(Run& run, TrainingStep& step, LoopInput& input, AfterStep& after, StopVotes& votes,
                        const RunPictures& pictures, std::optional<DeviceBatch>& batch, std::optional<DispatchedStep> before) {
  const PhaseSpan span("step", run.progress.step + 1, SpanKind::kStep);
  if (pictures.comes_before(run.progress.step + 1)) {
    if (before) after.read_metrics(*before);
    votes.take_kept();
    before.reset();
  }
  if (before) before->is_ready();
  DispatchedStep dispatched = step.dispatch(*batch);
  votes.take_kept();
  if (before) before->is_ready();  // the call may have waited for it (pjrt/large_temporaries.h)
  {
    const PhaseSpan phase(kWaitForTransfer);
    batch.reset();  // once the devices have all of it
  }
  if (run.progress.step < run.last_step()) batch = input.next(&dispatched);
  if (before) after.read_metrics(*before);
  return dispatched;
}

// Of the loop on this thread; null where this process trains alone. `run` and `input` are borrowed.
std::unique_ptr<HangWatch> watch_for_hangs(Run& run, const LoopInput& input, std::chrono::seconds timeout) {
  if (!run.processes.several()) return nullptr;
  constexpr double kSlowFile = 1;  // seconds
  WatchedLoop loop;
  loop.view = [&run, phase = innermost_phase_of_this_thread(), progress = run.reporter.loop_time()] {
    return LoopView{phase(), progress->get().step, run.processes.waited_for_others(), slow_file_call(kSlowFile)};
  };
  loop.input = [&input](double seconds) { return input.what_hangs(seconds); };
  loop.joint = run.recipe.processes.joint;
  return watch_for_hangs(run.processes.members(), std::move(loop), timeout,
                         [&run](int64_t process, const std::string& what) { run.figures->set_hang(process, what); });
}

// The run's files say how it ended. Exit code 3 where they lack something that was to be kept.
TrainResult write_ending(Run& run, const Saver& saver, NamedScores scores) {
  run.reporter.console().finish();
  const bool done = run.at_end();
  const Exit code = done ? Exit::kDone : run.stop.exit_code();
  run.reporter.finish(done ? monitor::RunEnd{} : monitor::RunEnd{monitor::Ending::kStopped, static_cast<int>(code)});
  draw_plot(run);
  // progress.times are those at which the last save began.
  const double held_up = run.reporter.times().save - run.progress.times.save;
  if (!done) run.record.stopped_after({run.progress.step, held_up, run.progress.seconds});
  const std::string why = run.stop.requested() ? run.stop.name() : "--until";
  run.record.ended(done ? "done" : "stopped", done ? run.ended_early().value_or("") : why, *run.client);
  TrainResult result = result_of(run, code, std::move(scores));
  const bool harmed = run.reporter.writer().failing() || run.reporter.writer().disturbed();
  const bool unsaved = run.processes.leads() && result.checkpoint.empty();
  if (saver.failures() > 0 || harmed || unsaved) result.exit = Exit::kData;
  return result;
}

// In the run's files. Curves of a run that diverged are worth a look too.
void record_failure(Run& run, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    const bool diverged = error.code() == Exit::kDiverged;
    if (run.client) run.record.ended(diverged ? "diverged" : "failed", error.message(), *run.client);
    run.reporter.finish({monitor::Ending::kFailed, static_cast<int>(error.code())});
    if (diverged) draw_plot(run);
  } catch (...) {
    // A bug of ours, or memory that the system refuses: whoever tells of that writes no files of the run.
  }
}

// The failure, with the arrays of the run where the devices' memory did not suffice.
std::exception_ptr explained(const Run& run, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& known) {
    if (!pjrt::is_out_of_memory(known)) return failure;
    const TensorType images = image_batch(*run.recipe.model, run.recipe.program_rows());
    return std::make_exception_ptr(out_of_memory("running the training step", known.message(),
                                                 arguments_of(run.layout, run.layout.entries.size(), images)));
  } catch (...) {
    return failure;
  }
}

}  // namespace

TrainResult train(config::Section section, const TrainOptions& options) {
  // ---- open: the recipe, the run's directory, and where the run stands ----
  Run run(std::move(section), options);
  StopWatch stop_watch(run.stop, options.stop_patience);
  RunEvaluators evaluators(run);
  Saver saver(run, options.save_timeout);
  StartingPoint start(run, evaluators.due(0));
  if (start.resumed()) saver.resume();
  if (options.profile_host) run.profiles.plan_first_steps(run.progress.step);
  if (run.at_end() || run.at_pause()) return finished_before(run, saver);

  NamedScores scores;
  std::optional<ControlSocket> control_socket;
  // From now on requests are refused, and those that wait get `why` as their answer.
  const auto end_control = [&](const char* why) {
    run.control.end(why);
    run.profiles.end();
    control_socket.reset();
  };
  try {
    const DiskNeed need = disk_need(run.recipe, run.layout, run.saves_jointly ? run.processes.count() : 1);
    if (run.processes.leads() || run.saves_jointly) expect_files_fit(need);
    run.connect();
    StepState state(run.client, run.layout);
    run.stop.hold();  // from here on there is a run to save
    run.workdir.write_recipe();
    start.put_later_aside();
    saver.open(state.arrays());
    if (!start.resumed()) run.workdir.mark_started();
    if (start.resumed() && run.processes.leads()) {
      run.reporter.resume(run.progress, run.record.take_up_save(run.progress.seconds));
    } else {
      run.reporter.start(run.progress.step);
    }
    if (run.processes.leads()) control_socket.emplace(run.workdir.path(), run.control);
    start.announce();
    start.keep_data_names();
    warn_of_disk(run, need);
    start.load_weights();

    // ---- compile: while the first batches are read and the state comes to the devices ----
    run.processes.connect();
    Compiler compiler(run.client, run.profiles.planned(run.progress.step));
    RunPictures pictures(run);
    const Hardware hardware = hardware_of(*run.client, run.cache);
    Programs programs = start_programs(run, hardware, compiler, pictures, !start.has_state(), options.profile_host);
    pictures.show_model();
    state.take_teacher(run.recipe);
    LoopInput input(run, pictures);

    // ---- restore ----
    start.put(state, programs.init, options.parameters);
    StopVotes votes(run);
    std::optional<TrainingStep> step;
    if (auto program = await_step_program(run, programs.step)) {
      step.emplace(run, *std::move(program), state, votes, pictures);
      evaluators.start(compiler, hardware);  // after the training step's, which everything waits for
    }

    // ---- loop: what a step measured is read while the devices work on the next one ----
    name_thread("training loop");
    run.reporter.begin();
    run.share_figures();
    auto hang_watch = watch_for_hangs(run, input, options.hang_timeout);
    AfterStep after(run, state, evaluators, saver, votes, pictures);
    bool goes_on = true;
    if (run.progress.owed) goes_on = after.finish();  // the evaluation at the start, or one that a signal cut off
    goes_on = goes_on && !run.at_end() && !run.at_pause();
    std::optional<DeviceBatch> batch;
    if (goes_on) batch = await_batch(run, input, saver);
    // A signal before the first batch came: what was resumed is on disk already.
    if (goes_on && !batch && !start.resumed()) saver.save(/*owed=*/false);

    std::optional<DispatchedStep> before;
    if (batch) stop_watch.set_saved(false);
    while (batch) {
      run.profiles.before(run.progress.step + 1);
      DispatchedStep current = one_step(run, *step, input, after, votes, pictures, batch, std::exchange(before, std::nullopt));

      const int64_t at = run.progress.step;
      const bool last = at >= run.last_step();
      const bool all_read = last || run.stop.requested() || evaluators.due(at) || run.recipe.saves_at(at);  // of the processes
      if (all_read || run.save_wanted()) {
        after.read_metrics(current, /*alone=*/!all_read && !run.saves_jointly);
        if (!after.finish() || last || run.at_end()) break;
      } else {
        before = std::move(current);
      }
      if (!batch) batch = await_batch(run, input, saver);
      if (!batch) saver.save_unless_saved();  // the end was asked for after the step was finished
    }

    // ---- finish ----
    hang_watch.reset();  // a last save may take as long as it takes
    saver.wait();
    saver.report(/*ended=*/true);
    run.leave();
    const bool saves = run.processes.leads() || run.saves_jointly;
    const bool only_here = run.copy && run.bucket.empty();  // and on its way to the bucket
    stop_watch.set_saved(saver.failures() == 0 && !only_here && (!saves || saver.last_saved() == run.progress.step));
    scores = after.scores();
    end_control("the run has ended");
    if (run.stop.requested()) compiler.abandon();
  } catch (...) {
    const std::exception_ptr failure = run.processes.wait_for_news(std::current_exception());
    const std::exception_ptr shown = explained(run, failure);
    if (run.processes.fail(shown)) saver.stay_alone();
    end_control("the run failed");
    run.reporter.console().finish();
    record_failure(run, failure);
    std::rethrow_exception(shown);
  }
  return write_ending(run, saver, std::move(scores));
}

}  // namespace tessera::train
