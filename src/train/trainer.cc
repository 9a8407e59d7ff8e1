#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/spans.h"
#include "base/temporary_directory.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "host/register.h"
#include "monitor/plot.h"
#include "pjrt/error.h"
#include "recipe/preprocessing_notes.h"
#include "recipe/run_identity.h"
#include "state/device_arrays.h"
#include "state/model_source.h"
#include "train/control/control.h"
#include "train/control/control_socket.h"
#include "train/guard/bad_batches.h"
#include "train/guard/skip_update.h"
#include "train/loop/best_checkpoint.h"
#include "train/loop/divergence.h"
#include "train/loop/run_evaluators.h"
#include "train/process/processes.h"
#include "train/process/stop_signal.h"
#include "train/reporting/profiles.h"
#include "train/run/default_workdir.h"
#include "train/run/early_stop.h"
#include "train/step/compile.h"
#include "train/step/device_batch.h"
#include "train/step/histograms.h"
#include "train/step/model_graph.h"
#include "train/step/program_options.h"
#include "train/step/trace.h"
#include "train/workdir/disk_space.h"
#include "train/workdir/run_record.h"
#include "train/workdir/workdir.h"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;

// `count` pictures of the model's size, as bytes.
monitor::Images images_of(const uint8_t* pixels, int64_t count, const models::InputShape& input) {
  monitor::Images out{"first_batch", {}};
  for (int64_t i = 0; i < count; ++i) {
    image::Image& image = out.images.emplace_back(static_cast<int>(input.width), static_cast<int>(input.height));
    std::memcpy(image.row(0), pixels + static_cast<size_t>(i) * image.byte_count(), image.byte_count());
  }
  return out;
}

std::string chosen_workdir(const TrainOptions& options, const std::string& recipe) {
  std::string path = options.workdir;
  if (path.empty()) {
    const DefaultWorkdir chosen = default_workdir(options.recipe_path, recipe, options.fresh);
    path = chosen.path;
    if (chosen.continued)
      log_note(fmt::format("`{}` has this recipe and is not finished, so it goes on; --new starts afresh", path));
  }
  return path;
}

class Trainer {
 public:
  Trainer(config::Section recipe, const TrainOptions& options)
      : client_future_(std::async(std::launch::async, [device = options.device] { return open_client(device); })),
        cache_(options.device.cache),
        processes_(options.place),
        recipe_(read_recipe(std::move(recipe), options.device)),
        layout_(recipe::recipe_layout(recipe_)),
        home_(home_of(options)),
        workdir_(own_directory_ ? own_directory_->path() + "/run" : home_, recipe_.text),
        shows_parameters_(options.parameters),
        profiles_host_(options.profile_host),
        record_(workdir_, options.command, options.version),
        reporter_(recipe_, workdir_.path(), recipe_.mesh.devices() * processes_.count(), options.command, options.version) {
    description_ = {recipe_.text,
                    recipe_.model->input(),
                    recipe_.class_names,
                    recipe_.evals.empty() ? std::string() : recipe_.evals[0].sets[0].data.options.pp,
                    recipe::data_identity(recipe_.data),
                    recipe_.data.source().multi_label()};
    run_ = recipe::run_name(description_);
    if (!options.until.empty()) until_ = read_until(options.until);
    processes_.expect_same("the program", options.version);
    processes_.expect_same("the recipe", recipe_.text, keys_that_differ);
    processes_.expect_same("the data", recipe::data_summary(recipe_));
    processes_.expect_same("--until", std::to_string(until_));
    processes_.compare_clocks();
    if (options.log) options.log->open(log_path());  // after the leader has made the directory
    if (processes_.several()) stop_.wait_for_agreement();
  }

  TrainResult run();

 private:
  // A step on the device whose metrics were not read yet.
  struct Pending {
    int64_t step = 0;
    pjrt::Buffer metrics;
    std::optional<Clock::time_point> ready;  // known at once where a call waits for the work (several virtual devices)
  };

  // The CPU plugin makes as many devices as it is asked for, so that the recipe need not wait for it.
  int64_t device_count(const DeviceOptions& device) {
    if (device.platform == pjrt::Platform::kCpu) return device.devices.value_or(1);
    client_ = client_future_.get();
    return devices_of(device, *client_);
  }

  recipe::Recipe read_recipe(config::Section recipe, const DeviceOptions& device);
  int64_t read_until(const std::string& text) const;
  // The run's directory, which the leader chooses. The others have one of their own beside it, for what they don't keep.
  std::string home_of(const TrainOptions& options);
  std::string log_path() const;

  // Start: workdir -> resume -> model_init -> scratch.
  void announce() const;
  std::optional<checkpoint::LoadedCheckpoint> latest_checkpoint();
  bool restore();
  void take_up(const std::string& state);
  // Whether there are arrays to begin with, of this run or another.
  bool has_state() const { return resumed_from_ || began_at_; }
  void put_restored();
  void load_initial_weights();
  void place_teacher();
  void start_programs();
  std::future<Compiled> start_compile(Program program, size_t state_arguments, int64_t batch);
  void start_input();
  void initialise();
  bool wait_for_program(const std::future<Compiled>& future, const char* name);
  std::shared_ptr<const pjrt::Executable> take(std::future<Compiled>& future, const char* name,
                                               state::DeviceArrays* numbers = nullptr, pjrt::CompileReport* report = nullptr);

  // What sinks get besides metrics: the model, the first images, histograms.
  void show_model();
  void show_images(const data::Batch& rows);
  void augment_first_images(DeviceBatch& batch);
  bool shows_images() const { return has_sinks_ && recipe_.monitor.images > 0 && progress_.step == 0; }
  bool wants_histograms() const { return has_sinks_ && recipe_.histograms_every > 0; }
  void count_histograms(DeviceBatch& batch);
  void tell_histograms(int64_t step);

  // One step and what follows it.
  void train_to_the_end(bool resumed);
  state::ArgumentLists step_arguments(DeviceBatch& batch, state::DeviceArrays& numbers);
  void one_step(std::optional<DeviceBatch>& batch);
  Pending dispatch(DeviceBatch& batch);
  void next_batch(std::optional<DeviceBatch>& batch);
  void await_batch(std::optional<DeviceBatch>& batch);
  void settle(const Pending& pending);
  [[noreturn]] void diverged(const std::string& what);
  void skip(int64_t step, const state::StepMetrics& metrics);
  state::DeviceArrays& votes();
  void take_votes(const float* sums);
  void finish_step();
  std::optional<NamedScores> evaluate();
  void follow_plateau(const NamedScores& scores);
  std::string path_of(int64_t step) const;
  static std::string place_of(int64_t step);
  bool has_checkpoint(int64_t step) const;

  void save(bool owed);
  void save_unless_saved();
  void end_control(const std::string& why);
  void report_failures();
  void draw_plot() const;
  void record_failure();
  TrainResult result(Exit exit) const;
  // Whether nothing is left to do: the last step is done, or early_stop ended the run before it.
  bool at_end() const;
  // Whether this start has done what it was asked to: the run may have steps left.
  bool at_pause() const { return !progress_.owed && until_ > 0 && progress_.step >= until_; }
  // The last step of this start, unless something ends it before.
  int64_t last_step() const { return until_ > 0 ? std::min(until_, recipe_.total) : recipe_.total; }
  [[noreturn]] void rethrow_explained(std::exception_ptr error) const;

  StopSignal stop_;
  std::future<std::shared_ptr<pjrt::Client>> client_future_;
  std::shared_ptr<pjrt::Client> client_;
  pjrt::ExecutableCache cache_;
  Processes processes_;
  bool has_sinks_ = false;  // the leader, and what is made for them is made by all
  recipe::Recipe recipe_;
  state::StateLayout layout_;
  std::optional<TemporaryDirectory> own_directory_;  // of a process that does not lead
  std::string home_;
  Workdir workdir_;
  state::RunDescription description_;
  std::string run_;                                           // whose the checkpoints are
  std::optional<checkpoint::CheckpointManager> checkpoints_;  // once the workdir is this recipe's
  bool shows_parameters_, profiles_host_;
  int64_t until_ = 0;  // the step after which this start ends; 0: none
  RunRecord record_;
  Reporter reporter_;
  Profiles profiles_{workdir_.path(), recipe_.profile};
  RunControl control_{stop_, &profiles_};
  std::optional<ControlSocket> control_socket_;  // once there is a run to save

  std::future<Compiled> init_future_, train_future_, augmented_future_, histogram_future_;
  std::shared_ptr<const pjrt::Executable> train_program_, histogram_program_;
  state::DeviceArrays numbers_, histogram_numbers_;  // of the two programs (ir/numbers.h)
  RunEvaluators evaluators_{recipe_, layout_, workdir_, reporter_, stop_, processes_};
  std::unique_ptr<data::TrainLoader> loader_;

  std::optional<checkpoint::LoadedCheckpoint> restored_;  // until it is on the devices
  state::HostArrays initial_weights_;                     // of model_init, likewise; empty bytes where the drawn value stays
  state::DeviceArrays teacher_;                           // its weights, where there is one
  Exit voted_ = Exit::kDone;
  state::DeviceArrays votes_;            // of several processes: this one's number, and voted_
  state::DeviceArrays state_;            // after `progress_.step` steps, once the device is through
  std::optional<int64_t> resumed_from_;  // the step
  std::optional<int64_t> began_at_;      // the step of another run that this one goes on from
  state::Progress progress_;             // `metrics` are those of `progress_.step`, once settled
  BestCheckpointKeeper best_{recipe_.best,
                             recipe_.checkpoint.keep_best,
                             progress_,
                             {[this](int64_t step) { return has_checkpoint(step); }, [this] { checkpoints_->wait(); }}};
  struct Counted {
    int64_t step = 0;
    pjrt::Buffer rows;  // of histogram_program
  };
  std::optional<Counted> counted_;  // of a step whose metrics are not read yet
  std::optional<Pending> pending_;  // the last step dispatched, until its metrics are read
  NamedScores last_scores_;
  bool stopped_ = false;  // saved because of a signal: the run ends here
};

TrainResult Trainer::run() {
  const bool resumed = restore();
  if (profiles_host_) profiles_.plan_first_steps(progress_.step);
  if (at_end() || at_pause()) {
    TrainResult done = result(Exit::kDone);
    done.finished_before = at_end();
    if (processes_.leads() && done.finished_before) reporter_.catch_up(progress_);
    processes_.leave();
    return done;
  }
  try {
    if (client_future_.valid()) client_ = client_future_.get();
    processes_.expect_same("the plugin", client_->platform_version());
    reporter_.watch(*client_);
    profiles_.watch(client_->shared_plugin(), client_->platform_name() == "cpu");
    stop_.hold();  // from here on there is a run to save
    workdir_.write_recipe();
    checkpoints_.emplace(workdir_.checkpoints(), checkpoint::KeepRules{recipe_.checkpoint.keep, recipe_.keep_every});
    if (!resumed) workdir_.mark_started();
    resumed&& processes_.leads() ? reporter_.resume(progress_) : reporter_.start(progress_.step);
    if (processes_.leads()) control_socket_.emplace(workdir_.path(), control_);
    announce();
    if (const auto warning = space_warning(disk_need(recipe_, layout_), workdir_.path())) log_warning(*warning);
    if (!has_state() && recipe_.model_init) load_initial_weights();
    start_programs();
    show_model();
    place_teacher();
    start_input();
    has_state() ? put_restored() : initialise();
    if (wait_for_program(train_future_, kTrainStep)) {
      pjrt::CompileReport compilation;
      train_program_ = take(train_future_, kTrainStep, &numbers_, &compilation);
      profiles_.watch(train_program_);
      record_.started(recipe_, *client_, *train_program_, compilation);
      evaluators_.start(client_, cache_);  // after the training step's, which everything waits for
    }
    train_to_the_end(resumed);
    checkpoints_->wait();
    report_failures();
    processes_.leave();
    end_control("the run has ended");
  } catch (...) {
    processes_.wait_for_news(std::current_exception());
    end_control("the run failed");
    reporter_.console().finish();
    record_failure();
    rethrow_explained(std::current_exception());
  }
  reporter_.console().finish();
  const bool done = at_end();
  reporter_.finish(done ? monitor::RunEnd{} : monitor::RunEnd{monitor::Ending::kStopped, static_cast<int>(stop_.exit_code())});
  draw_plot();
  const auto early = progress_.step < recipe_.total ? early_end(recipe_.early_stop, progress_.early_stop) : std::nullopt;
  const std::string why = stop_.requested() ? stop_.name() : "--until";
  record_.ended(done ? "done" : "stopped", done ? early.value_or("") : why, *client_);
  TrainResult out = result(done ? Exit::kDone : stop_.exit_code());
  const bool harmed = reporter_.writer().failing() || reporter_.writer().disturbed();
  const bool unsaved = processes_.leads() && out.checkpoint.empty();
  if (checkpoints_->failures() > 0 || harmed || unsaved) out.exit = Exit::kData;
  return out;
}

// ---- start ----

recipe::Recipe Trainer::read_recipe(config::Section section, const DeviceOptions& device) {
  if (processes_.several() && device.platform != pjrt::Platform::kCpu) {
    throw usage_error(fmt::format("{} processes train on CPUs only", processes_.count()), {},
                      "leave out --platform, or start one process with several devices");
  }
  const int64_t devices = device_count(device);
  recipe::Recipe recipe = recipe::read_recipe(std::move(section), devices, processes_.count());
  has_sinks_ = !recipe.monitor.sinks.empty();
  if (!processes_.leads()) recipe.monitor.sinks.clear();
  return recipe;
}

int64_t Trainer::read_until(const std::string& text) const {
  const config::Duration until = config::parse_duration(text, "--until");
  const int64_t step = config::to_steps(until, recipe_.batch, recipe_.examples_per_epoch, recipe_.total, "--until");
  if (step < 1)
    throw usage_error(fmt::format("`{}` is before the first step", text), "--until", "for example --until \"1 epoch\"");
  return step;
}

std::string Trainer::home_of(const TrainOptions& options) {
  std::string path;
  if (processes_.leads()) {
    path = chosen_workdir(options, recipe_.text);
    processes_.from_leader("workdir", std::filesystem::absolute(path));
  } else {
    path = processes_.from_leader("workdir", "");
    own_directory_.emplace("tessera-process");
  }
  if (options.on_workdir) options.on_workdir(path);
  return path;
}

std::string Trainer::log_path() const {
  if (processes_.leads()) return workdir_.log();
  store::local_files().make_directories(home_);
  return store::join_path(home_, fmt::format("log-{}.txt", processes_.index()));
}

void Trainer::announce() const {
  for (const config::Difference& change : workdir_.changes()) {
    log_note(fmt::format("`{}` is now {} (was {})", change.key, recipe::shown_value(change.right),
                         recipe::shown_value(change.left)));
  }
  log_line(fmt::format("{}   {}", recipe_.model->describe(), state::parameter_summary(layout_)));
  if (recipe_.teacher) log_line(fmt::format("teacher {}", recipe_.teacher->model->describe()));
  if (layout_.sharded()) {
    log_line(fmt::format("{} devices   mesh {}   {}", layout_.devices(), layout_.mesh.text(), recipe_.sharding.preset));
  }
  std::string kinds = recipe_.class_names.empty() ? "" : fmt::format(", {} classes", recipe_.class_names.size());
  for (const objectives::TokenInput& tokens : recipe_.objective->inputs().tokens) {
    kinds += fmt::format(", {} of {} tokens", tokens.name, tokens.length);
  }
  log_line(fmt::format("{}   {} images{}   batch {}, {} steps ({:.4g} epochs)", recipe_.data.name(),
                       human_count(recipe_.examples_per_epoch), kinds, recipe_.batch, human_count(recipe_.total),
                       recipe_.epochs(recipe_.total)));
  for (const std::string& note : recipe::evaluation_notes(recipe_)) log_note(note);
  if (began_at_) {
    log_line(fmt::format("begins at step {} of {}, with the state of {}", human_count(*began_at_), human_count(recipe_.total),
                         *recipe_.run.resume));
  } else if (progress_.step > 0 || progress_.owed) {
    log_line(fmt::format("continues {} from step {} of {}", workdir_.path(), human_count(progress_.step),
                         human_count(recipe_.total)));
  }
}

std::optional<checkpoint::LoadedCheckpoint> Trainer::latest_checkpoint() {
  checkpoint::LatestCheckpoint latest = checkpoint::find_latest(workdir_.checkpoints());
  for (const checkpoint::RejectedCheckpoint& bad : latest.rejected) workdir_.pass_over(bad);
  if (!latest.checkpoint) workdir_.expect_nothing_lost();
  return std::move(latest.checkpoint);
}

// The leader's checkpoint, which the others don't see: put_restored() sends them its arrays. True where it is of this run.
bool Trainer::restore() {
  for (const std::string& note : recipe::evaluation_notes(recipe_)) log_note(note);
  if (processes_.leads()) restored_ = latest_checkpoint();
  const bool own = restored_.has_value();
  if (own) recipe::check_run(*restored_, description_);
  if (processes_.leads() && !own && recipe_.run.resume) restored_ = state::open_checkpoint(*recipe_.run.resume, "resume");
  if (restored_) state::check_arrays(layout_, restored_->arrays, restored_->path);
  const std::string whose = processes_.from_leader("whose state", own ? "own" : "");
  const std::string state = processes_.from_leader("state", restored_ ? restored_->state_json : "");
  if (state.empty()) {
    progress_.owed = evaluators_.due(progress_.step);
    return false;
  }
  if (whose.empty()) {
    take_up(state);
    return false;
  }
  progress_ = state::parse_progress(state, restored_ ? restored_->path : home_);
  resumed_from_ = progress_.step;
  best_.resume();
  return true;
}

// Of another run: where it stands in its schedule. Its scores and times are its own.
void Trainer::take_up(const std::string& state) {
  const state::Progress other = state::parse_progress(state, *recipe_.run.resume);
  if (other.step >= recipe_.total) {
    throw usage_error(fmt::format("`{}` is at step {}, and this run ends after step {}", *recipe_.run.resume,
                                  human_count(other.step), human_count(recipe_.total)),
                      "resume", "set a larger `total`, which counts from step 0, or an earlier RUN@STEP");
  }
  progress_.step = other.step;
  progress_.examples_seen = other.examples_seen;
  progress_.plateau = other.plateau;
  progress_.owed = recipe_.run.eval_at_start;
  began_at_ = other.step;
}

void Trainer::put_restored() {
  const Reporter::Timed timed(reporter_, &state::RunTimes::restore);
  const auto read = [&](size_t i, const Placed& box, std::byte* out) {
    const state::StateEntry& entry = layout_.entries[i];
    if (restored_) state::read_entry(entry, restored_->arrays, box, out);
    processes_.copy_from_leader({out, static_cast<size_t>(byte_count({entry.type.dtype, box.dims}))});
  };
  state_ = state::to_device(layout_, layout_.entries.size(), read, *client_);
  if (restored_) restored_->check();
  restored_.reset();
}

// Before anything is compiled, so that weights that don't fit are known at once.
void Trainer::load_initial_weights() {
  initial_weights_.resize(layout_.params);
  for (const std::string& note : state::init_from(*recipe_.model_init, *recipe_.model, layout_, initial_weights_))
    log_note(note);
  if (const auto note = recipe::weights_note(recipe_, state::preprocessing_of(recipe_.model_init->from))) log_note(*note);
}

void Trainer::place_teacher() {
  if (!recipe_.teacher) return;
  teacher_ = state::to_device(recipe_.teacher->layout, recipe_.teacher->params, *client_);
  recipe_.teacher.reset();  // the host's copy has served
}

void Trainer::start_input() {
  data::LoaderOptions options = recipe_.data.loader(recipe_.batch, static_cast<uint64_t>(recipe_.run.seed));
  options.start_batch = progress_.step;
  options.row_count = options.batch / processes_.count();
  options.row_begin = processes_.index() * options.row_count;
  loader_ = std::make_unique<data::TrainLoader>(recipe_.data.sets, options);
  reporter_.watch(*loader_);
}

std::future<Compiled> Trainer::start_compile(Program program, size_t state_arguments, int64_t batch) {
  // A plugin keeps names of what it compiled, and none of what it loaded.
  const bool named = profiles_host_ && program.name == kTrainStep;
  auto arguments = arguments_of(layout_, state_arguments, image_batch(*recipe_.model, batch));
  return compile_async(client_, std::move(program), named ? pjrt::ExecutableCache("") : cache_, std::move(arguments));
}

void Trainer::start_programs() {
  processes_.connect();
  const ProgramOptions options = train_options(recipe_, host::register_kernels(*client_));
  train_future_ = start_compile(train_program(*recipe_.model, layout_, *recipe_.optimizer, options), layout_.entries.size(),
                                recipe_.rows());
  if (shows_images() && options.augmentation.values() > 0) {
    augmented_future_ =
        start_compile(augmented_program(*recipe_.model, layout_, options, recipe_.monitor.images), 0, recipe_.rows());
  }
  if (wants_histograms()) {
    Program histograms = histogram_program(*recipe_.model, layout_, *recipe_.optimizer, options);
    histogram_future_ = start_compile(std::move(histograms), layout_.entries.size(), recipe_.rows());
  }
  if (!has_state()) init_future_ = start_compile(init_program(recipe_.specs, layout_), 0, 0);
}

// False when a signal came first.
bool Trainer::wait_for_program(const std::future<Compiled>& future, const char* name) {
  const Reporter::Timed timed(reporter_, &state::RunTimes::compile);
  return wait_unless_stopped(future, name, reporter_, stop_);
}

std::shared_ptr<const pjrt::Executable> Trainer::take(std::future<Compiled>& future, const char* name,
                                                      state::DeviceArrays* numbers, pjrt::CompileReport* report) {
  Compiled compiled = future.get();
  if (report) *report = compiled.report;
  if (numbers) *numbers = place_numbers(compiled.numbers, *client_, layout_.mesh);
  reporter_.console().phase("compile", name, compiled.report.seconds, cause_of(compiled.report));
  return std::make_shared<const pjrt::Executable>(std::move(compiled.executable));
}

void Trainer::initialise() {
  const auto key = seed_key(static_cast<uint64_t>(recipe_.run.seed));
  state::DeviceArrays rng = state::replicate(*client_, layout_.mesh, key.data(), {DType::kU32, {2}});
  reporter_.console().busy("compile  init …");
  state_ = take(init_future_, "init")->execute(state::argument_lists(rng, 1));
  const std::vector<float> measured = state_[0].back().to_host<float>();
  for (std::vector<pjrt::Buffer>& list : state_) list.pop_back();
  state::name_entries(layout_, state_);
  std::vector<state::Moments> moments;
  for (size_t i = 0; i < layout_.params; ++i) moments.push_back({measured[2 * i], measured[2 * i + 1]});
  for (size_t i = 0; i < initial_weights_.size(); ++i) {
    if (initial_weights_[i].size() == 0) continue;
    state::put_entry(layout_, i, initial_weights_[i], *client_, state_);
    if (layout_.averages > 0) state::put_entry(layout_, layout_.average_index() + i, initial_weights_[i], *client_, state_);
    moments[i] = state::moments_of(initial_weights_[i]);
    initial_weights_[i] = {};
  }
  const std::string table = state::parameter_table(layout_, moments);
  if (shows_parameters_) log_line(table);
  if (!reporter_.sinks().empty()) {
    reporter_.sinks().put(monitor::Text{"model", monitor::as_code(recipe_.model->describe() + "\n" + table)});
  }
}

// ---- what sinks get ----

void Trainer::show_model() {
  if (!reporter_.sinks().empty()) reporter_.sinks().put(model_graph(*recipe_.model));
}

// The host's rows of the first batch, where the device leaves them as they are.
void Trainer::show_images(const data::Batch& rows) {
  if (!shows_images() || augmented_future_.valid()) return;
  const models::InputShape& input = recipe_.model->input();
  reporter_.sinks().put(images_of(rows.images(), std::min(rows.rows(), recipe_.monitor.images), input));
}

void Trainer::augment_first_images(DeviceBatch& batch) {
  if (!augmented_future_.valid() || !wait_for_program(augmented_future_, "augmented")) return;
  const auto program = take(augmented_future_, "augmented");
  const auto key = seed_key(static_cast<uint64_t>(recipe_.run.seed));
  state::DeviceArrays rng = state::replicate(*client_, layout_.mesh, key.data(), {DType::kU32, {2}});
  state::ArgumentLists arguments = state::argument_lists(rng, 1);
  state::append_arguments(arguments, batch.arguments());
  if (processes_.several()) state::append_arguments(arguments, votes());
  const std::vector<uint8_t> pixels = program->execute(arguments)[0][0].to_host<uint8_t>();
  const models::InputShape& input = recipe_.model->input();
  const int64_t size = input.height * input.width * input.channels;
  reporter_.sinks().put(images_of(pixels.data(), static_cast<int64_t>(pixels.size()) / size, input));
}

// Of the step to come, which is worked off twice for it.
void Trainer::count_histograms(DeviceBatch& batch) {
  const int64_t step = progress_.step + 1;
  if (!wants_histograms() || !(step == 1 || recipe::due(step, recipe_.histograms_every, recipe_.total))) return;
  if (!histogram_program_) {
    if (!wait_for_program(histogram_future_, "histograms")) return;
    histogram_program_ = take(histogram_future_, "histograms", &histogram_numbers_);
  }
  counted_ = Counted{step, std::move(histogram_program_->execute(step_arguments(batch, histogram_numbers_))[0][0])};
}

void Trainer::tell_histograms(int64_t step) {
  if (!counted_ || counted_->step != step) return;
  const std::vector<float> rows = counted_->rows.to_host<float>();
  reporter_.sinks().put(step, monitor::Histograms{read_histograms(layout_, *recipe_.optimizer, rows)});
  counted_.reset();
}

// ---- the loop ----

void Trainer::train_to_the_end(bool resumed) {
  name_thread("training loop");
  reporter_.begin();
  if (progress_.owed) finish_step();  // the evaluation at the start, or one that a signal cut off
  std::optional<DeviceBatch> batch;
  if (!at_end() && !at_pause() && !stopped_) await_batch(batch);
  if (!stopped_ && stop_.requested()) {
    // A signal during compilation, or before the first batch came: what was resumed is on disk already.
    if (!resumed) save(/*owed=*/false);
    stopped_ = true;
  }
  if (!batch || stopped_) return;

  for (;;) {
    profiles_.before(progress_.step + 1);
    one_step(batch);

    const bool last = progress_.step >= last_step();
    const bool asked = stop_.requested() || control_.save_wanted();
    if (last || asked || evaluators_.due(progress_.step) || recipe_.saves_at(progress_.step)) {
      settle(*pending_);
      pending_.reset();
      finish_step();
    }
    if (last || stopped_ || at_end()) return;
    await_batch(batch);
    if (!batch) {  // the end was asked for after the step was finished
      save_unless_saved();
      stopped_ = true;
      return;
    }
  }
}

state::ArgumentLists Trainer::step_arguments(DeviceBatch& batch, state::DeviceArrays& numbers) {
  state::ArgumentLists arguments =
      state::argument_lists(state_, layout_.entries.size(), teacher_.empty() ? nullptr : &teacher_);
  state::append_arguments(arguments, batch.arguments());
  if (processes_.several()) state::append_arguments(arguments, votes());
  state::append_arguments(arguments, numbers);
  return arguments;
}

// What each process is asked to do goes into the step, so that all find the same in its sums.
state::DeviceArrays& Trainer::votes() {
  if (!votes_.empty() && voted_ == stop_.wanted()) return votes_;
  voted_ = stop_.wanted();
  const auto index = static_cast<int32_t>(processes_.index());
  std::array<float, kVotes> sums{};
  sums[kVoteStop] = voted_ == Exit::kDone ? 0 : 1;
  sums[kVoteInterrupt] = voted_ == Exit::kInterrupted ? 1 : 0;
  votes_ = state::replicate(*client_, layout_.mesh, &index, {DType::kI32, {}});
  state::DeviceArrays wanted = state::replicate(*client_, layout_.mesh, sums.data(), {DType::kF32, {kVotes}});
  for (size_t d = 0; d < votes_.size(); ++d) votes_[d].push_back(std::move(wanted[d][0]));
  return votes_;
}

// All processes read them of the same step, while they work on the same next one, after which they end.
void Trainer::take_votes(const float* sums) {
  if (sums[kVoteStop] > 0) stop_.agree(sums[kVoteInterrupt] > 0 ? Exit::kInterrupted : Exit::kPreempted);
}

Trainer::Pending Trainer::dispatch(DeviceBatch& batch) {
  const PhaseSpan span("dispatch");
  augment_first_images(batch);
  count_histograms(batch);
  state::DeviceArrays results = train_program_->execute(step_arguments(batch, numbers_));
  ++progress_.step;
  progress_.examples_seen += recipe_.batch;
  Pending dispatched{progress_.step, std::move(results[0].back()), {}};
  if (dispatched.metrics.ready()) dispatched.ready = Clock::now();
  for (std::vector<pjrt::Buffer>& list : results) list.pop_back();
  state_ = std::move(results);
  state::name_entries(layout_, state_);
  return dispatched;
}

// Dispatches the step of `batch`, which becomes the next one, and settles the step before.
void Trainer::one_step(std::optional<DeviceBatch>& batch) {
  const PhaseSpan span("step", progress_.step + 1, SpanKind::kStep);
  if (pending_ && !pending_->ready && pending_->metrics.ready()) pending_->ready = Clock::now();
  const std::optional<Pending> before = std::exchange(pending_, dispatch(*batch));
  batch.reset();
  if (progress_.step < last_step()) next_batch(batch);
  if (before) settle(*before);  // while the device works on the step just dispatched
}

// The next batch, unless there is one; saves what is asked for meanwhile. Leaves `batch` empty when the run shall stop.
void Trainer::await_batch(std::optional<DeviceBatch>& batch) {
  while (!batch && !stop_.requested()) {
    next_batch(batch);
    if (!batch && control_.save_wanted()) save_unless_saved();
  }
}

// Leaves `batch` empty when something was asked of the run first: that waits for no disk and no decoder.
void Trainer::next_batch(std::optional<DeviceBatch>& batch) {
  const auto start = Clock::now();
  bool came = false;
  {
    const PhaseSpan span("wait for input");
    came = loader_->wait([this] { return stop_.requested() || control_.save_wanted(); });
  }
  // While the device still works on the last step nothing is lost by waiting.
  const bool idle = !pending_ || pending_->metrics.ready();
  if (idle) reporter_.waited(std::chrono::duration<double>(Clock::now() - start).count());
  if (!came) return;
  data::Batch rows = loader_->next();
  show_images(rows);
  const Reporter::Timed timed(reporter_, nullptr, "transfer");
  batch.emplace(*client_, layout_.mesh, std::move(rows), recipe_.data.pp(), recipe_.objective->inputs());
}

// Reads a step's metrics, stops the run if they are not finite, and tells them.
void Trainer::settle(const Pending& pending) {
  const int64_t step = pending.step;
  const std::vector<float> values = [&] {
    const PhaseSpan span("wait for the device");
    return pending.metrics.to_host<float>();
  }();
  const Clock::time_point ready = pending.ready.value_or(Clock::now());
  state::StepMetrics metrics;
  for (const std::string& name : metric_names(*recipe_.objective, recipe_.guard))
    metrics.push_back({name, values[metrics.size()]});
  const bool skipped = recipe_.guard && measurement(metrics, guard_metric_names()[kSkipsInRow]) > 0;
  for (const auto& [name, value] : metrics) {
    if (!std::isfinite(value) && !skipped) diverged(fmt::format("{} is {} at step {}", name, value, step));
  }
  if (processes_.several()) take_votes(values.data() + metrics.size());
  const bool log_now = step == 1 || recipe::due(step, recipe_.log_every, recipe_.total);
  const auto memory = client_->memory(0);
  reporter_.step(step, metrics, ready, log_now, memory ? std::optional(memory->in_use) : std::nullopt);
  progress_.metrics = metrics;
  if (skipped) skip(step, metrics);
  tell_histograms(step);
  report_failures();
  profiles_.settled(step, ready);
  // The line of the step at hand waits for its evaluations: finish_step() writes it.
  if (!(log_now || skipped) || (step == progress_.step && evaluators_.due(progress_.step))) return;
  const PhaseSpan span("write metrics");
  reporter_.write(step, metrics, {});
}

void Trainer::diverged(const std::string& what) {
  checkpoints_->wait();
  best_.forget_missing();
  const auto saved = checkpoints_->last_committed() ? checkpoints_->last_committed() : resumed_from_;
  const auto& best = progress_.best_checkpoint;
  const auto from = best ? std::optional(best->step) : saved;
  throw Error(
      Exit::kDiverged,
      fmt::format("the run diverged: {}{}", what, saved ? fmt::format("; the last checkpoint is of step {}", *saved) : ""),
      workdir_.path(), divergence_help(recipe_, workdir_.path(), from ? std::optional(path_of(*from)) : std::nullopt));
}

// Keeps the batch of a step whose update was not made; after max_skips of them in a row the run ends.
void Trainer::skip(int64_t step, const state::StepMetrics& metrics) {
  const Reporter::Pause pause(reporter_);
  const BadBatch bad{step, why_skipped(metrics), metrics};
  const auto in_row = std::llround(measurement(metrics, guard_metric_names()[kSkipsInRow]));
  std::string kept;
  if (processes_.leads()) {
    try {
      kept = keep_bad_batch(recipe_, workdir_.path(), bad, [this] { return stop_.requested(); });
    } catch (const Error& error) {  // the run does not need it
      log_warning(fmt::format("the batch of step {} could not be kept: {}", step, error.message()));
    }
  }
  if (in_row >= recipe_.guard->max_skips) {
    diverged(fmt::format("{} skipped (guard.max_skips), the last because {} at step {}; {}",
                         in_row == 1 ? "1 update was" : fmt::format("{} updates in a row were", in_row), bad.why, step,
                         kept.empty() ? "the batch was not kept" : fmt::format("its batch is in {}", kept)));
  }
  log_warning(fmt::format("step {}: the update is skipped, because {} ({} in a row, of {} at most){}", step, bad.why, in_row,
                          recipe_.guard->max_skips - 1, kept.empty() ? "" : "; its batch is in " + kept));
}

// Evaluations, the metrics line and the checkpoint of the step at hand, whose metrics are known. Sets stopped_ when it saved
// because the end was asked for; what is asked later is for the next step.
void Trainer::finish_step() {
  const Reporter::Pause pause(reporter_);
  profiles_.interrupted();
  bool new_best = false;
  if (evaluators_.due(progress_.step)) {
    std::optional<NamedScores> scores;
    if (!stop_.requested()) scores = evaluate();
    if (!scores) {
      save(/*owed=*/true);
      stopped_ = true;
      return;
    }
    reporter_.write(progress_.step, progress_.metrics, *scores);
    follow_plateau(*scores);
    new_best = best_.take(*scores);
    last_scores_ = std::move(*scores);
  } else if (progress_.owed && progress_.metrics && recipe::due(progress_.step, recipe_.log_every, recipe_.total)) {
    reporter_.write(progress_.step, progress_.metrics, {});  // `every` of the evaluators was changed since the signal
  }
  progress_.owed = false;
  stopped_ = stop_.requested();
  const bool ends = stopped_ || at_end() || at_pause();
  if (ends || new_best || control_.save_wanted() || recipe_.saves_at(progress_.step)) save(/*owed=*/false);
}

// The evaluators that are due, and where their scores end the run those of its end too. Nothing when a signal came first:
// nothing of it is kept then.
std::optional<NamedScores> Trainer::evaluate() {
  std::optional<NamedScores> scores = evaluators_.run(state_, progress_);
  if (!scores || !recipe_.early_stop) return scores;
  const auto state = after_scores(*recipe_.early_stop, progress_.early_stop, progress_.step, *scores);
  const auto early = progress_.step < recipe_.total ? early_end(recipe_.early_stop, state) : std::nullopt;
  if (early) {
    const auto more = evaluators_.run(state_, progress_, /*at_end=*/true);
    if (!more) return std::nullopt;
    scores->insert(scores->end(), more->begin(), more->end());
    log_note(fmt::format("{}: the run ends at step {} of {}", *early, human_count(progress_.step), human_count(recipe_.total)));
  }
  progress_.early_stop = state;
  return scores;
}

bool Trainer::at_end() const {
  if (progress_.owed) return false;
  return progress_.step >= recipe_.total || early_end(recipe_.early_stop, progress_.early_stop).has_value();
}

std::string Trainer::path_of(int64_t step) const {
  return store::join_path(store::join_path(home_, "checkpoints"), checkpoint::step_directory(step));
}

// In the workdir.
std::string Trainer::place_of(int64_t step) { return store::join_path("checkpoints", checkpoint::step_directory(step)); }

bool Trainer::has_checkpoint(int64_t step) const {
  return store::local_files().info(store::join_path(path_of(step), checkpoint::kCommitFile)).has_value();
}

// The rate of the steps to come, where scores decide it.
void Trainer::follow_plateau(const NamedScores& scores) {
  if (!layout_.lr_scale) return;
  const optim::PlateauOptions& plateau = *recipe_.optimizer->schedule().plateau();
  const double before = progress_.plateau.scale;
  for (const auto& [name, s] : scores) {
    if (!plateau.metric.starts_with(name + "/")) continue;
    const std::optional<double> score = s.find(plateau.metric.substr(name.size() + 1));
    if (score) progress_.plateau = optim::after_score(plateau, progress_.plateau, progress_.step, *score);
  }
  if (progress_.plateau.scale == before) return;
  const auto scale = static_cast<float>(progress_.plateau.scale);
  state::put_entry(layout_, layout_.lr_scale_index(), store::copy_bytes(std::as_bytes(std::span(&scale, 1))), *client_, state_);
  log_note(fmt::format("{} stopped getting better: the learning rate is now {:.3g} of the schedule's", plateau.metric,
                       progress_.plateau.scale));
}

// ---- saving and ending ----

void Trainer::save(bool owed) {
  if (!processes_.leads()) return;
  progress_.times = reporter_.times();
  const Reporter::Timed timed(reporter_, &state::RunTimes::save, "save");
  workdir_.renew_lock();
  best_.before_save();
  progress_.owed = owed;
  progress_.seconds = reporter_.uptime();
  // The copies are made while save_async runs: the next step takes the memory of these buffers over.
  checkpoint::Snapshot snapshot = state::state_snapshot(layout_, state_);
  snapshot.step = progress_.step;
  snapshot.state_json = state::to_json(progress_, description_);
  snapshot.run = run_;
  snapshot.best = best_.steps();
  snapshot.before_commit = [this] {
    workdir_.expect_in_place();
    reporter_.writer().flush();
  };
  snapshot.ended = [asked = control_.take(), step = progress_.step,
                    path = place_of(progress_.step)](const std::string& failure) {
    for (const RunControl::Saved& saved : asked) saved({step, path, failure});
  };
  checkpoints_->save_async(std::move(snapshot));
}

// Of a step that is finished. While the run waits for the next one, it may be asked to save again and again.
void Trainer::save_unless_saved() {
  const Reporter::Pause pause(reporter_);
  profiles_.interrupted();
  checkpoints_->wait();
  if (!has_checkpoint(progress_.step)) return save(/*owed=*/false);
  for (const RunControl::Saved& saved : control_.take()) saved({progress_.step, place_of(progress_.step), ""});
}

// Nobody can ask anything any more, and who waits is told why.
void Trainer::end_control(const std::string& why) {
  control_.end(why);
  profiles_.end();
  control_socket_.reset();
}

void Trainer::report_failures() {
  if (checkpoints_->last_committed()) workdir_.mark_saved();
  while (const auto failure = checkpoints_->poll_failure()) {
    log_warning(failure->message + (failure->committed ? "" : "; the run goes on, and earlier checkpoints are as they were"));
  }
}

void Trainer::draw_plot() const {
  try {
    workdir_.expect_in_place();
    monitor::write_plot(workdir_.path());
  } catch (const Error& error) {
    log_warning(fmt::format("no plot was drawn: {}", error.message()));
  }
}

// Of the current exception. Curves of a run that diverged are worth a look too.
void Trainer::record_failure() {
  try {
    throw;
  } catch (const Error& error) {
    const bool diverged = error.code() == Exit::kDiverged;
    if (client_) record_.ended(diverged ? "diverged" : "failed", error.message(), *client_);
    reporter_.finish({monitor::Ending::kFailed, static_cast<int>(error.code())});
    if (diverged) draw_plot();
  } catch (...) {
    // A bug of ours, or memory that the system refuses: whoever tells of that writes no files of the run.
  }
}

TrainResult Trainer::result(Exit exit) const {
  TrainResult result;
  result.exit = exit;
  result.stopped_by = stop_.name();
  result.paused = at_pause() && !at_end() && !stop_.requested();
  result.step = progress_.step;
  result.total = recipe_.total;
  result.classifier = dynamic_cast<const models::Classifier*>(recipe_.model.get()) != nullptr;
  result.evaluators = !recipe_.evals.empty();
  result.workdir = home_;
  if (has_checkpoint(progress_.step)) result.checkpoint = path_of(progress_.step);
  if (const auto& best = progress_.best_checkpoint; best && best->step != progress_.step && has_checkpoint(best->step)) {
    result.best = fmt::format("{} ({} {:.4g})", path_of(best->step), best->metric, best->value);
  }
  result.seconds = client_ ? reporter_.uptime() : progress_.seconds;
  result.scores = last_scores_;
  return result;
}

void Trainer::rethrow_explained(std::exception_ptr error) const {
  try {
    std::rethrow_exception(std::move(error));
  } catch (const Error& known) {
    if (!pjrt::is_out_of_memory(known)) throw;
    throw out_of_memory("running the training step", known.message(),
                        arguments_of(layout_, layout_.entries.size(), image_batch(*recipe_.model, recipe_.rows())));
  }
}

}  // namespace

TrainResult train(config::Section recipe, const TrainOptions& options) { return Trainer(std::move(recipe), options).run(); }

}  // namespace tessera::train
