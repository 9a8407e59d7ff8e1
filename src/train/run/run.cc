#include "train/run/run.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/system/environment.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "checkpoint/remote/run_objects.h"
#include "monitor/process_figures.h"
#include "recipe/run_identity.h"
#include "state/model_source.h"
#include "state/saved_parts.h"
#include "state/weight_file.h"
#include "store/servers/buckets.h"
#include "train/reporting/own_figures.h"
#include "train/run/default_workdir.h"
#include "train/run/early_stop.h"
#include "train/run/shared_directory.h"

namespace tessera::train {
namespace {

std::string chosen_workdir(const TrainOptions& options, const std::string& recipe) {
  if (!options.workdir.empty()) return options.workdir;
  const DefaultWorkdir chosen = default_workdir(options.recipe_path, recipe, options.fresh);
  if (chosen.continued)
    log_note(fmt::format("`{}` has this recipe and is not finished, so it goes on; --new starts afresh", chosen.path));
  return chosen.path;
}

state::RunDescription describe(const recipe::Recipe& recipe) {
  state::RunDescription run{recipe.text,
                            recipe.model->input(),
                            recipe.class_names,
                            inference_pp(recipe),
                            recipe::data_identity(recipe.data),
                            recipe.data.source().multi_label()};
  for (const recipe::EvalPlan& eval : recipe.evals) {
    if (eval.sets[0].texts == 0) run.eval_data[eval.name] = recipe::data_identity(eval.sets[0].data);
  }
  return run;
}

// That the weights or the run are there which this one begins with.
void expect_beginning(const recipe::Recipe& recipe) {
  if (recipe.run.resume) state::expect_checkpoint(*recipe.run.resume, "resume");
  if (recipe.model_init) state::expect_weights(state::parse_weight_path(recipe.model_init->from).path, "model_init.from");
}

// Beside the rest of the start; not where the processes must have met before.
std::future<std::shared_ptr<pjrt::Client>> start_client(const TrainOptions& options) {
  if (options.place.several() && options.device.spans_processes()) return {};
  return std::async(std::launch::async, [device = options.device] { return open_client(device); });
}

bool cuda_graphs_are_off() {
  constexpr std::string_view kNone = "--xla_gpu_enable_command_buffer=";
  for (const std::string& flag : split(environment_variable("XLA_FLAGS"), ' ')) {
    if (flag == kNone) return true;
  }
  return false;
}

int64_t read_until(const std::string& text, const recipe::Recipe& recipe) {
  if (text.empty()) return 0;
  const config::Duration until = config::parse_duration(text, "--until");
  const int64_t step = config::to_steps(until, recipe.batch, recipe.examples_per_epoch, recipe.total, "--until");
  if (step < 1)
    throw usage_error(fmt::format("`{}` is before the first step", text), "--until", "for example --until \"1 epoch\"");
  return step;
}

}  // namespace

Run::Run(config::Section section, const TrainOptions& options)
    : opening(start_client(options)),
      cache(options.device.cache),
      processes(options.place, options.meeting, options.membership),
      recipe(read_recipe(std::move(section), options.device)),
      layout(recipe::recipe_layout(recipe)),
      saves_jointly(splits_state()),
      copy(options.copy),
      bucket(bring_leaders_copy()),
      home(choose_home(options)),
      workdir(own_directory ? own_directory->path() + "/run" : home, recipe.text),
      directory_of(find_directories(options)),
      host_lock(leads_directory() && !processes.leads() ? std::optional<store::DirectoryLock>(std::in_place, home)
                                                        : std::nullopt),
      description(describe(recipe)),
      name(recipe::run_name(description)),
      until(read_until(options.until, recipe)),
      from_step(options.from_step),
      record(workdir, options.command, options.version),
      reporter(recipe, workdir.path(), recipe.devices(), options.command, options.version),
      profiles(workdir.path(), recipe.profile),
      control(stop, &profiles) {
  agree();
  if (options.log) open_log(*options.log);  // after the leader has made the directory
  if (processes.several()) stop.wait_for_agreement();
}

// The CPU plugin makes as many devices as it is asked for, so that the recipe need not wait for it.
int64_t Run::device_count(const DeviceOptions& device) {
  if (device.platform == pjrt::Platform::kCpu) return device.devices.value_or(1);
  client = opening.valid() ? opening.get() : open_client(device, processes.client_group());
  return devices_of(device, *client);
}

recipe::Recipe Run::read_recipe(config::Section section, const DeviceOptions& device) {
  processes.expect_same("the platform", std::string(pjrt::platform_name(device.platform)));
  const int64_t devices = device_count(device);
  const recipe::ProcessGroup group{processes.count(), processes.several() && device.spans_processes()};
  recipe::Recipe read = recipe::read_recipe(std::move(section), devices, group);
  has_sinks = !read.monitor.sinks.empty();
  if (!processes.leads()) read.monitor.sinks.clear();
  return read;
}

std::string Run::choose_home(const TrainOptions& options) {
  std::string path;
  if (processes.leads()) {
    path = chosen_workdir(options, recipe.text);
    if (!store::local_files().info(path)) expect_beginning(recipe);  // so that a mistake leaves no directory
    processes.from_leader("workdir", std::filesystem::absolute(path));
  } else {
    path = processes.from_leader("workdir", "");
    own_directory.emplace("tessera-process");
  }
  if (options.on_workdir) options.on_workdir(path);
  return path;
}

// Of a run in a bucket. Fetching it may take long, and so comes after the processes have met; they then wait together. Asked
// whatever the recipe is: those of the processes are compared later.
std::string Run::bring_leaders_copy() {
  std::string url = processes.from_leader("bucket", copy ? copy->url() : "");
  if (copy) copy->bring_up_to_date(saves_jointly);
  if (!url.empty() && processes.several()) processes.members()->barrier("run from the bucket", kFetchPatience);
  return saves_jointly ? std::move(url) : std::string();
}

bool Run::splits_state() const { return recipe.processes.joint && !state::whole_in_each(layout, processes.count()); }

// After the leader has made its own. What follows depends on the recipe, and so is that of all.
std::vector<int64_t> Run::find_directories(const TrainOptions& options) {
  processes.expect_same("the program", options.version);
  processes.expect_same("the recipe", recipe.text, keys_that_differ);
  if (!saves_jointly || !bucket.empty()) return {};
  processes.from_leader("workdir is there", "");
  store::local_files().make_directories(home);
  return directory_of_each(processes, home);
}

bool Run::on_several_hosts() const {
  return std::ranges::any_of(directory_of, [](int64_t first) { return first > 0; });
}

void Run::agree() {
  processes.expect_same("the data", recipe::data_summary(recipe));
  processes.expect_same("--until", std::to_string(until));
  processes.expect_same("--from-step", from_step ? std::to_string(*from_step) : "none");
  processes.compare_clocks();
}

void Run::open_log(monitor::LogFile& log) const {
  if (processes.leads()) return log.open(workdir.log());
  store::local_files().make_directories(home);
  log.open(store::join_path(home, fmt::format("log-{}.txt", processes.index())));
}

void Run::connect() {
  remove_hosts();
  if (opening.valid()) client = opening.get();
  processes.expect_same("the plugin", client->shared_plugin()->build() + client->platform_version());
  reporter.watch(*client);
  profiles.watch(client->shared_plugin(), client->platform_name() == "cpu");
  if (client->platform_name() == "cuda" && !profiles.planned(progress.step) && !cuda_graphs_are_off()) {
    profiles.leave_device_out(
        "NVIDIA's profiler can end a run that uses CUDA graphs; monitor.profile = \"steps N-M\" makes the next start without "
        "them");
  }
}

void Run::share_figures() {
  if (!processes.several()) return;
  if (!recipe.processes.joint) reporter.watch_peers([this] { return processes.waited_for_others(); });
  figures = std::make_unique<FigureExchange>(
      processes.members(),
      [own = std::make_shared<OwnFigures>(reporter.loop_time(), client, progress.step)] { return own->take(); },
      [this, file = hosts_file()](const monitor::HostFigures& all) {
        workdir.expect_in_place();
        store::write_atomic(store::local_files(), file, monitor::to_json(all));
      });
  reporter.watch([this] { return figures ? figures->news() : std::nullopt; });
}

std::string Run::hosts_file() const { return store::join_path(workdir.path(), monitor::kHostsFile); }

// What an earlier start heard of its processes.
void Run::remove_hosts() const {
  try {
    if (store::local_files().info(hosts_file())) store::local_files().remove_file(hosts_file());
  } catch (const store::IoError&) {
    // The page then shows what that start left.
  }
}

void Run::leave() {
  if (figures) figures->tell_last();
  processes.leave([this] {
    if (figures) figures->collect_last();
  });
  figures.reset();
}

std::optional<std::string> Run::ended_early() const {
  return progress.step < recipe.total ? early_end(recipe.early_stop, progress.early_stop) : std::nullopt;
}

bool Run::at_end() const { return !progress.owed && (progress.step >= recipe.total || ended_early()); }

std::string Run::checkpoint_path(int64_t step) const {
  return store::join_path(store::join_path(home, "checkpoints"), checkpoint::step_directory(step));
}

bool Run::has_checkpoint(int64_t step) const {
  const std::string in_bucket = store::join_path(bucket, remote::checkpoint_name(step));
  const std::string path = store::join_path(bucket.empty() ? checkpoint_path(step) : in_bucket, checkpoint::kCommitFile);
  return store::files_at(path).info(path).has_value();
}

}  // namespace tessera::train
