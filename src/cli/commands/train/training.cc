// What train does with a recipe: flags, log, live page, report, and the lines printed after the run.
#include "cli/commands/train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/system/process.h"
#include "base/text/shell.h"
#include "base/text/text.h"
#include "checkpoint/remote/run_copy.h"
#include "cli/command.h"
#include "cli/commands/board.h"
#include "cli/crash.h"
#include "cli/optional_work.h"
#include "cli/version.h"
#include "cluster/group/meeting.h"
#include "cluster/group/members.h"
#include "monitor/sinks/log_file.h"
#include "pages/board/board.h"
#include "pages/report/report.h"
#include "store/file.h"
#include "store/local/lock.h"
#include "store/url.h"
#include "train/process/stop_signal.h"
#include "train/trainer.h"
#include "train/workdir/workdir.h"

namespace tessera::cli {
namespace {

constexpr const char* kReportPage = "report/index.html";
constexpr double kReportPatience = 30;       // seconds, of one file: the run is done without its report
constexpr int64_t kMaxPatience = 1'000'000;  // seconds

}  // namespace

void Training::declare(Flags& flags) {
  flags_ = &flags;
  flags.add("--workdir", "DIR", &workdir_,
            "the run's directory, also s3://BUCKET/RUN or gs://BUCKET/RUN; when not given, that of this recipe's newest run "
            "under runs/ if it is not finished, else a "
            "new one, runs/<recipe>-N");
  flags.add("--new", &new_, "do not go on with an unfinished run");
  flags.add(
      "--until", "DURATION", &until_,
      "save and end after so much of the run, as \"10 epochs\" or \"25 %\"; the schedule is that of the whole run, and the "
      "same command without this goes on");
  flags.add("--from-step", "N", &from_step_, 0,
            "go back to the checkpoint of step N of the --workdir, and on from there; later checkpoints get other names");
  flags.add("--log-file", "FILE", &log_file_, "where the console's lines go too; <workdir>/log.txt when not given");
  flags.add(
      "--stop-patience", "SECONDS", &stop_patience_, 1,
      "once a signal asked for the end, how long one file of it may take before the run ends without that file; 120 when not "
      "given");
  flags.add(
      "--board", "[=ADDRESS]", [this](const std::string& value) { board_ = value == "1" ? "" : value; },
      "a live page of the run, as --board, --board=6070 or --board=127.0.0.1:6070");
  flags.add("--num-processes", "N", &processes_.num_processes, {1, 4096},
            "how many processes train this run together; tessera launch sets this and the next four");
  flags.add("--process-id", "ID", &processes_.process_id, 0, "which of them this is, from 0");
  flags.add(
      "--coordinator-address", "HOST:PORT", &processes_.coordinator,
      "of the etcd at which they meet, or of its members, with commas; mpirun, `srun --mpi=pmix` and the hosts of a TPU need "
      "none");
  flags.add(
      "--coordinator-key", "FILE", &processes_.key,
      "the etcd's key, where it asks for one: PEM of a private key and its certificate, as `tessera launch key` prints it");
  flags.add("--run-id", "NAME", &processes_.run, "tells runs apart that meet at one etcd: another name for each start");
  flags.add("--meet-timeout", "SECONDS", &meet_timeout_, {1, kMaxPatience},
            "how long the processes wait for each other, and for the etcd, at the start; 600 when not given");
  flags.add("--hang-timeout", "SECONDS", &hang_timeout_, {0, kMaxPatience},
            "how long a process that hangs is waited for, as in a read of its input; then it ends with exit code 75, and so do "
            "the others; 300 when not given, 0: for ever; slow steps and files have more time");
  flags.add("--save-timeout", "SECONDS", &save_timeout_, {1, kMaxPatience},
            "how long whoever starts this run gives its last checkpoint, from SIGTERM on: a save that takes half of that is a "
            "warning; tessera launch sets it for slurm and jobset");
  flags.add("--parameters", &parameters_, "list every parameter with shape, mean and deviation when the run starts");
  flags.add(
      "--profile-host", &profile_host_,
      "profile this start from its fourth step on, 20 steps or 3 seconds, and print where the time goes: by layer, kernel "
      "and operation; the step is compiled anew, since cached programs have no names");
  flags.add("--no-report", &no_report_, "do not write <workdir>/report/index.html when the run ends");
}

Exit Training::run(const RecipeToTrain& recipe, const train::DeviceOptions& device) {
  if (!store::is_bucket(workdir_)) store::refuse_url(workdir_);  // before the data is read
  if (new_ && !workdir_.empty()) {
    throw usage_error("--new chooses a directory itself, and --workdir names one", {}, "leave one of them out");
  }
  if (from_step_ && (workdir_.empty() || store::is_bucket(workdir_))) {
    throw usage_error(workdir_.empty() ? "--from-step goes back in the run of --workdir, and none is named"
                                       : "--from-step goes back in a run on this machine, and --workdir is in a bucket",
                      {}, workdir_.empty() ? "add --workdir DIR" : "begin another run with resume=RUN@STEP");
  }
  store::refuse_url(log_file_);
  monitor::LogFile log(fmt::format("start    {}: {}", version_line(), one_line(crash_context().command)));
  if (!log_file_.empty()) {
    store::local_files().make_directories(store::parent_path(log_file_));
    std::error_code broken;
    const std::string target = std::filesystem::weakly_canonical(log_file_, broken);  // a link that the user names is meant
    log.open(broken ? log_file_ : target);
  }
  try {
    return train(recipe, device, log);
  } catch (const Error& error) {
    log.add(fmt::format("error: {}", printable_message(error.what())));
    throw;
  } catch (const std::bad_alloc&) {
    log.add("error: there is not enough memory");
    throw;
  } catch (const store::OutOfFiles& error) {
    log.add(fmt::format("error: {}", printable_message(error.what())));
    throw;
  }
}

Exit Training::train(const RecipeToTrain& source, const train::DeviceOptions& device, monitor::LogFile& log) const {
  group::PlaceOptions processes = processes_;
  processes.on_tpu = device.platform == pjrt::Platform::kTpu;
  const group::Meeting meeting(processes);
  std::shared_ptr<group::Members> membership;
  // Before it is no member any more, and the others take it for lost. They end then, and mpirun ends this process with them.
  const auto tell_others = [&](Exit code) { membership ? membership->fail(code) : group::tell_failure(meeting.place(), code); };
  try {
    return train_at(meeting.place(), source.read(), source, device, log, membership);
  } catch (const store::InUse& error) {
    // An earlier start of several processes may be writing its last checkpoint, and goes then.
    if (!meeting.place().several()) throw;
    throw group::transient_error(error.message(), error.where(), error.help());
  } catch (const Error& error) {
    if (meeting.place().several()) log_error_once(error.what());
    tell_others(error.code());
    throw;
  } catch (const std::bad_alloc&) {
    tell_others(Exit::kDevice);
    throw;
  } catch (const store::OutOfFiles&) {
    tell_others(Exit::kDevice);
    throw;
  }
}

Exit Training::train_at(const group::Place& place, config::Section recipe, const RecipeToTrain& source,
                        const train::DeviceOptions& device, monitor::LogFile& log,
                        std::shared_ptr<group::Members>& membership) const {
  if (!place.leads()) set_quiet_log(true);
  std::optional<remote::RunCopy> copy;
  if (store::is_bucket(workdir_) && place.leads()) copy.emplace(workdir_, train::kept_checkpoints);
  std::optional<board::Board> page;
  train::TrainOptions options{copy ? copy->local() : workdir_, source.path, new_};
  options.copy = copy ? &*copy : nullptr;
  options.device = device;
  options.command = crash_context().command;
  options.version = version_line();
  options.log = &log;
  options.parameters = parameters_;
  options.profile_host = profile_host_;
  options.until = until_;
  options.stop_patience = std::chrono::seconds(std::min(stop_patience_, kMaxPatience));
  options.from_step = from_step_;
  options.place = place;
  options.meeting = std::chrono::seconds(meet_timeout_);
  options.hang_timeout = std::chrono::seconds(hang_timeout_);
  if (save_timeout_) options.save_timeout = std::chrono::seconds(*save_timeout_);
  options.membership = &membership;
  options.on_workdir = [&](const std::string& workdir) {
    crash_context().workdir = workdir;
    if (!board_ || !place.leads()) return;
    const board::Address address = board::parse_address(*board_);
    page.emplace(board::BoardOptions{{workdir}, /*expected=*/true, address});
    tell_of_page(*page, address);
  };
  try {
    train::TrainResult result = train::train(std::move(recipe), options);
    if (!place.leads()) return result.exit;
    // One that was stopped goes on, and whoever stopped it may not wait for images.
    bool has_report = result.finished_before && store::local_files().info(store::join_path(result.workdir, kReportPage));
    if (result.stopped_by.empty() && !result.paused && !has_report) has_report = write_report(result.workdir);
    if (copy && !copy->finish()) result.exit = Exit::kData;
    tell(result, source, copy ? copy->url() : result.workdir, has_report);
    return result.exit;
  } catch (const Error& error) {
    if (error.code() == Exit::kDiverged && place.leads()) write_report(crash_context().workdir);
    throw;
  }
}

// The run has ended, whatever becomes of its report. Whether there is one.
bool Training::write_report(const std::string& workdir) const {
  if (no_report_) return false;
  const auto failed = [](std::string_view why) { log_warning(fmt::format("no report was written: {}", why)); };
  try {
    const auto left = do_if_files_come([workdir] { report::write_report({workdir}); }, kReportPatience,
                                       [] { return train::StopSignal::came_late(); });
    if (!left) return true;
    failed(*left + "; `tessera report` writes it");
  } catch (const Error& error) {
    failed(error.message());
  } catch (const std::bad_alloc&) {
    failed("there is not enough memory");
  } catch (const store::OutOfFiles& error) {
    failed(error.what());
  }
  return false;
}

// The command that goes on with the run: with the flags of this one, but for those of one start.
std::string Training::continuing(const RecipeToTrain& recipe, const std::string& workdir) const {
  return recipe.command +
         flags_->given({"--workdir", "--new", "--until", "--from-step", "--parameters", "--profile-host", "--num-processes",
                        "--process-id", "--coordinator-address", "--coordinator-key", "--run-id", "--meet-timeout",
                        "--hang-timeout", "--save-timeout"}) +
         " --workdir " + shell_quoted(workdir);
}

// `workdir`: as the user names it, which is another path where it is in a bucket. `has_report`: one of the run as it is now; an
// earlier start may have left an older one.
void Training::tell(const train::TrainResult& result, const RecipeToTrain& recipe, const std::string& workdir,
                    bool has_report) const {
  // The run has ended well whether or not somebody still reads.
  const auto line = [](const char* what, const std::string& text) { print_if_read(fmt::format("{:<12}{}", what, text)); };
  const auto shown = [&](const std::string& path) { return workdir + path.substr(result.workdir.size()); };
  if (result.finished_before) {
    log_note(fmt::format("the run is finished: step {} of {}", human_count(result.step), human_count(result.total)));
  }
  if (!result.checkpoint.empty()) line("checkpoint", shown(result.checkpoint));
  for (const auto& [what, name] : {std::pair{"metrics", "metrics.jsonl"}, std::pair{"plot", "plot.svg"}}) {
    const std::string path = store::join_path(result.workdir, name);
    if (store::local_files().info(path)) line(what, shown(path));
  }
  if (has_report) line("report", shown(store::join_path(result.workdir, kReportPage)));
  if (!result.best.empty()) log_line(fmt::format("best checkpoint: {}", shown(result.best)));
  if (!result.finished_before) {
    log_line(fmt::format("{} of host memory at most", human_bytes(static_cast<double>(peak_resident_bytes()))));
  }
  if (result.exit == Exit::kPreempted || result.exit == Exit::kInterrupted) {
    log_line(fmt::format("stopped by {} after step {} of {}, which is saved. Continue: {}", result.stopped_by,
                         human_count(result.step), human_count(result.total), continuing(recipe, workdir)));
  }
  if (result.paused) {
    log_line(fmt::format("ended after step {} of {}, as --until says. Continue: {}", human_count(result.step),
                         human_count(result.total), continuing(recipe, workdir)));
    return;
  }
  if (result.exit == Exit::kDone) line("next", next(result, workdir));
}

// What a model of this kind is for.
std::string Training::next(const train::TrainResult& result, const std::string& workdir) {
  const std::string from = shell_quoted(workdir);
  const std::string pp = result.pp.empty() ? "" : " --pp " + shell_quoted(result.pp);
  if (result.classifier) return fmt::format("tessera predict --from {}{} IMAGE…", from, pp);
  if (result.captioner) return fmt::format("tessera caption --from {}{} IMAGE…", from, pp);
  if (!result.evaluators) return fmt::format("tessera export --plain --from {} --to FILE.safetensors", from);
  return fmt::format("tessera eval {} --from {}", shell_quoted(store::join_path(result.workdir, "recipe.toml")), from);
}

}  // namespace tessera::cli
