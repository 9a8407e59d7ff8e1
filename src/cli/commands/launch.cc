// tessera launch: several processes that train one run together.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "cluster/group/run_key.h"
#include "cluster/launch/host_agent.h"
#include "cluster/launch/launcher.h"
#include "mesh/mesh.h"
#include "mesh/partition.h"
#include "models/model.h"
#include "pjrt/plugin/accelerators.h"
#include "pjrt/plugin/plugin.h"
#include "recipe/recipe.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

constexpr const char* kLaunchExample = "tessera launch local:2 -- train recipes/digits.toml";

std::string places() {
  std::string text;
  for (const launch::Launcher* launcher : launch::launchers()) {
    text += fmt::format("  {:<14}{}\n", launcher->words, launcher->summary);
  }
  return text;
}

constexpr int64_t kMaxGpus = 1024;           // of a pod
constexpr int64_t kMaxSaveTimeout = 65'535;  // seconds: what sbatch takes

// Of "2..4".
launch::Elastic elastic(const std::string& text) {
  launch::Elastic out;
  const char* end = text.data() + text.size();
  const auto [dots, error] = std::from_chars(text.data(), end, out.least);
  if (error == std::errc() && std::string_view(dots, end).starts_with("..")) {
    const auto [stopped, second] = std::from_chars(dots + 2, end, out.most);
    if (second == std::errc() && stopped == end && out.least >= 1 && out.most >= out.least) return out;
  }
  throw usage_error(fmt::format("`--elastic` takes two numbers of hosts, and is \"{}\"", text), {}, "--elastic 2..4");
}

// Of "NAME=VALUE" or "NAME".
launch::Variable variable(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  // What a shell takes for one, since schedulers' files name it there.
  constexpr std::string_view kSigns = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  if (name.empty() || name.find_first_not_of(kSigns) != std::string::npos || (name[0] >= '0' && name[0] <= '9')) {
    throw usage_error(fmt::format("`--env` takes NAME or NAME=VALUE, and its NAME is \"{}\"", name), {},
                      "a name has letters, digits and _, and begins with no digit");
  }
  if (equals != std::string::npos) return {name, text.substr(equals + 1)};
  const char* value = std::getenv(name.c_str());
  if (!value)
    throw usage_error(fmt::format("`--env {}`: there is no such variable here", name), {}, "--env NAME=VALUE sets one");
  return {name, value};
}

// The least number of devices that the recipe's mesh fits; 1 where it fits none.
int64_t devices_of_mesh(config::Section recipe) {
  constexpr int64_t kMaxDevices = 1024;  // of --devices
  recipe::RunOptions run;
  recipe.bind_part(run);
  for (int64_t devices = 1; devices <= kMaxDevices; ++devices) {
    try {
      mesh::parse_mesh(run.mesh, devices, {});
      return devices;
    } catch (const Error&) {
      // Perhaps another number; what is wrong with the mesh itself is said when the recipe is read.
    }
  }
  return 1;
}

// Whether the recipe's model has it, by arrays that no gradient changes.
bool has_batch_norm(config::Section recipe) {
  try {
    // Any images and captions that such models take: the data, which have the real ones, may be on other machines.
    const std::unique_ptr<models::Model> model = models::make_model(recipe.section("model"), {224, 224, 3, 1000, 64, 32'000});
    return std::ranges::any_of(models::parameters(*model), [](const nn::ParamSpec& spec) { return !spec.trained; });
  } catch (const Error&) {
    return false;  // a model of other images, all of which have none, or a mistake, which the processes tell
  }
}

// How the recipe's batches are divided: what a number of hosts must divide, so that each gets the same part of every batch
// (recipe/recipe.h, check_batch), and what follows with fewer of them.
void read_batches(config::Section recipe, const CommonFlags& flags, launch::Request& request) {
  const train::DeviceOptions& device = flags.device;
  recipe::RunOptions run;
  recipe.bind_part(run);
  int64_t batch = 0;
  recipe.section("data").bind_field("batch", config::Field(&batch), {});
  // Of other platforms the devices are the hosts'.
  const bool known = device.platform == pjrt::Platform::kCpu && (!flags.automatic || device.devices);
  const int64_t parts =
      known ? mesh::batch_parts(mesh::parse_mesh(run.mesh, device.devices.value_or(1), recipe.place("mesh"))) : 1;
  request.accumulate = std::max<int64_t>(1, run.accumulate);
  request.rows = known ? batch / parts : 0;
  request.batch_norm = request.elastic && has_batch_norm(recipe);
  int64_t common = std::max<int64_t>(1, batch / (parts * request.accumulate));
  config::Section evaluators = recipe.section("eval");
  for (const std::string& name : evaluators.keys()) {
    config::Section evaluator = evaluators.section(name);
    std::optional<int64_t> own;
    if (evaluator.has("batch")) evaluator.bind_field("batch", config::Field(&own), {});
    if (own) common = std::gcd(common, std::max<int64_t>(1, *own / parts));
  }
  request.batch = common;
}

class Launch final : public Command {
 public:
  Page page() const override {
    return {
        "launch",
        "PLACE -- train RECIPE [key=value …]",
        "train one run with several processes, here or on several hosts",
        {{kLaunchExample, "two processes on this machine, each with half of the processors and of every batch"},
         {"tessera launch ssh:a,b -- train recipes/digits.toml --workdir /shared/runs/digits", "one on each of two hosts"},
         {"tessera launch local:2 --dry-run -- train recipes/digits.toml", "show what would be run"}},
        "Places:\n" + places() +
            "On GPUs and TPUs the recipe's mesh spans the devices of all processes; on CPUs it is that of each process.\n"
            "Weights and metrics are those of one process. Process 0 reports, and saves unless the mesh splits the state over\n"
            "the processes: then all save. A process that dies ends the others within 15 s; all are started again and go on\n"
            "from the last checkpoint. They meet at an etcd (Debian's etcd-server), which is started where\n"
            "--coordinator-address names none. All must see the same data. Exit codes are those of train.\n"
            "More: docs/devices/hosts.md"};
  }
  void declare(Flags& flags) override {
    flags.explain_unknown(flag_of_train);
    flags.add("--dry-run", &dry_run_, "check the recipe as far as it is here, show what would be run, and run nothing");
    flags.add("--restarts", "N", &request_.restarts, 0, "how often the run is started again when a process is lost (10)");
    flags.add("--coordinator-address", "HOST:PORT", &request_.coordinator.address,
              "of an etcd that runs already, or of its members, with commas");
    flags.add("--coordinator-key", "FILE", &request_.coordinator.key,
              "its key, where it asks for one: PEM of a private key and its certificate, as `tessera launch key` prints it");
    flags.add(
        "--elastic", "MIN..MAX", [this](const std::string& value) { request_.elastic = elastic(value); },
        "of ssh and tpu-vm: go on without hosts that are not reached, with MIN to MAX of them, as divide the batch, until "
        "they are back");
    flags.add("--directory", "DIR", &request_.directory,
              "where the hosts run it; this machine's current directory when not given");
    flags.add(
        "--env", "NAME[=VALUE]", [this](const std::string& value) { request_.environment.push_back(variable(value)); },
        "a variable of the environment for the processes, whose value no dry run and no file for a scheduler shows; this one's "
        "value where none is given, which keeps a password off the command line. May be repeated");
    flags.add("--program", "FILE", &request_.program,
              "where the hosts of mpi, slurm and jobset have the program; this one when not given");
    flags.add("--image", "NAME", &request_.image, "the containers' image for jobset, with the program and etcd in it");
    flags.add("--volume", "CLAIM:DIR", &request_.volume,
              "the containers' shared disk for jobset: a PersistentVolumeClaim and where it lies");
    flags.add("--topology", "CHIP:GRID", &request_.topology, "of TPUs for jobset and tpu-vm, as v5e:16x16");
    flags.add("--gpus-per-node", "K", &request_.pod_gpus, {1, kMaxGpus},
              "how many GPUs each pod of jobset asks for; it has no others");
    Flag& save_timeout =
        flags.add("--save-timeout", "SECONDS", &request_.save_timeout, {1, kMaxSaveTimeout},
                  "of slurm and jobset: how long the last checkpoint may take, before the job's time limit or once a pod is to "
                  "end; 300 when not given");
    save_timeout.environment.clear();  // the variable is what a job or a pod has, and may launch processes of its own
    flags.add(
        "--option", "WORD", [this](const std::string& value) { request_.options.push_back(value); },
        "a word for ssh or the scheduler, as --option=-i --option=KEY. May be repeated");
  }
  static std::string flag_of_train(const std::string& name) {
    Flags flags;
    const std::unique_ptr<Command> train = kTrain.make();
    train->declare(flags);
    const bool known = std::ranges::any_of(flags.all(), [&](const Flag& flag) { return flag.name == name; });
    return known ? fmt::format("it is a flag of train, whose words stand behind --: {} {} …", kLaunchExample, name) : "";
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (words == std::vector<std::string>{"host"}) return launch::run_host_agent();
    if (words == std::vector<std::string>{"key"}) return print(group::new_run_key()), Exit::kDone;
    group::refuse_key_alone(request_.coordinator.key, request_.coordinator.address);
    request_.coordinator.key = group::read_run_key(request_.coordinator.key);
    if (words.empty()) throw usage_error("tessera launch needs a place and a command", {}, kLaunchExample);
    const launch::Launcher& launcher = launch::find_launcher(words[0], request_.where);
    request_.command.assign(words.begin() + 1, words.end());
    if (request_.command.empty() || request_.command[0] != "train") {
      throw usage_error(request_.command.empty() ? "nothing is launched"
                                                 : fmt::format("`{}` is not run by several processes", request_.command[0]),
                        {}, "write the command after --: " + launch::example_of(launcher));
    }
    if (request_.elastic && !launcher.copies) {
      throw usage_error(fmt::format("{} starts all of its processes or none", launcher.words), "--elastic",
                        "it is for the hosts of ssh and tpu-vm: leave it out");
    }
    if (request_.pod_gpus && launcher.name != launch::kJobset.name) {
      throw usage_error(fmt::format("{} takes the GPUs that its hosts have", launcher.words), "--gpus-per-node",
                        "it is for the pods of jobset: leave it out, or for slurm write --option=--gpus-per-node=K");
    }
    if (request_.save_timeout && launcher.name != launch::kSlurm.name && launcher.name != launch::kJobset.name) {
      throw usage_error(fmt::format("{} waits until the last checkpoint is written", launcher.words), "--save-timeout",
                        "it is for the jobs of slurm and the pods of jobset: leave it out");
    }
    if (request_.directory.empty() && launcher.name != "jobset") request_.directory = std::filesystem::current_path();
    if (dry_run_) {
      for (launch::Variable& variable : request_.environment) variable.value = launch::kHidden;
    }
    read_command(launcher);
    if (!dry_run_) return launcher.run(request_);
    print(launch::to_text(launcher.plan(request_)));
    return Exit::kDone;
  }

 private:
  // As train will, as far as it can be done here: the recipe of a scheduler's hosts and all data may be on other machines.
  void check_recipe(const launch::Launcher& launcher, const RecipeWords& words, const CommonFlags& common) const {
    namespace fs = std::filesystem;
    RecipeWords here = words;
    if (!launcher.copies && launcher.name != "local" && !store::is_remote(words.path)) {  // else it is this machine's
      here.path = fs::path(request_.directory) / words.path;
      std::error_code error;
      if (!fs::exists(here.path, error))
        return log_note(fmt::format("the recipe `{}` is not on this machine, and is not checked", here.path));
    }
    config::Section recipe = load_recipe(here);
    // Of TPUs and GPUs the number, which the mesh needs, is the hosts'; of this machine it is known.
    if (!request_.accelerator.empty() && request_.gpus.empty()) return;
    if (recipe.dump().find("://") != std::string::npos)
      return log_note(
          "the recipe names files on a server, which a dry run does not ask: what follows from them is not checked");
    const int64_t processes = launcher.copies || request_.where.empty() ? 1 : launch::process_count(request_, launcher);
    int64_t devices = common.device.devices.value_or(1);
    bool joint = false;
    if (!request_.gpus.empty()) {
      joint = true;
      devices = std::ssize(request_.gpus) * std::ssize(request_.gpus.front());
    } else if (common.automatic && !common.device.devices && (launcher.name != launch::kLocal.name || processes == 1)) {
      // Hosts take all of their TPUs or GPUs where nobody says otherwise.
      devices = devices_of_mesh(load_recipe(here));
      joint = processes > 1 && devices > 1;
      if (devices > 1) log_note(fmt::format("the mesh is for {} devices: whether the hosts have them is not checked", devices));
    }
    try {
      recipe::read_recipe(std::move(recipe), devices, {.count = processes, .joint = joint});
    } catch (const Error& mistake) {
      if (mistake.code() == Exit::kUsage) throw;
      log_note(fmt::format("the recipe is checked only as far as its data are here: {}", mistake.message()));
    }
  }

  // Of this machine: each process has its GPUs, and TPU chips are one process's.
  void share_devices(CommonFlags common) {
    const int64_t count = launch::process_count(request_, launch::kLocal);
    if (count == 1) return;
    choose_platform(common);
    if (common.device.platform == pjrt::Platform::kCpu) return;
    try {
      if (common.device.platform == pjrt::Platform::kTpu)
        throw usage_error("one process drives all TPU chips of a machine", {}, "`tessera train` without launch does that");
      const std::vector<std::string> gpus =
          pjrt::visible_accelerators(std::getenv("CUDA_VISIBLE_DEVICES"), pjrt::nvidia_gpus());
      for (int64_t process = 0; process < count; ++process) {
        const pjrt::GpuRange own = pjrt::gpus_of_process(std::ssize(gpus), process, count);
        request_.gpus.emplace_back(gpus.begin() + own.begin, gpus.begin() + own.end);
      }
      if (!dry_run_) pjrt::find_plugin(common.device.platform, common.device.plugin);  // or says once what every process would
    } catch (const Error& error) {
      if (!common.automatic) throw;
      log_note(fmt::format("{}: the {} processes train on its processors", error.message(), count));
      request_.environment.push_back({"TESSERA_PLATFORM", "cpu"});
    }
  }

  // Reads the words of train as train will.
  void read_command(const launch::Launcher& launcher) {
    const std::unique_ptr<Command> train = kTrain.make();
    Flags flags;
    CommonFlags common;
    train->declare(flags);
    declare_common_flags(flags, common);
    if (launcher.name != launch::kJobset.name) flags.read_environment();  // its pods don't have this one
    size_t position = 1;
    const RecipeWords recipe = recipe_words(flags.parse(request_.command, position), "train");
    if (!common.automatic && common.device.platform != pjrt::Platform::kCpu)
      request_.accelerator = pjrt::platform_name(common.device.platform);
    if (launcher.name == launch::kLocal.name) share_devices(common);
    if (dry_run_) check_recipe(launcher, recipe, common);
    if (!launcher.copies) return;
    request_.recipe = recipe.path;
    read_batches(load_recipe(recipe), common, request_);
    // A CUDA plugin is of no use without NVIDIA's libraries, 4 GB of them: the hosts have both.
    if (common.device.platform == pjrt::Platform::kCuda) return;
    request_.plugin = pjrt::find_plugin(common.device.platform, common.device.plugin);
    drop_flag(request_.command, "--plugin");
  }
  // With its value: the file lies elsewhere on the hosts.
  static void drop_flag(std::vector<std::string>& words, const std::string& name) {
    for (auto word = words.begin(); word != words.end();) {
      if (*word == name) {
        word = words.erase(word, std::next(word, word + 1 == words.end() ? 1 : 2));
      } else {
        word = word->starts_with(name + "=") ? words.erase(word) : word + 1;
      }
    }
  }

  launch::Request request_;
  bool dry_run_ = false;
};

}  // namespace

const CommandEntry kLaunch = command_entry<Launch>("launch");

}  // namespace tessera::cli
