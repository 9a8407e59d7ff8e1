#pragma once
// The ways to start the processes of a run. To add one, write a file with a `const Launcher` and a line in launchers.def; help and
// messages follow from it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cluster/launch/processes/plan.h"

namespace tessera::launch {

// A run may go on with fewer hosts.
struct Elastic {
  int64_t least = 1, most = 1;
};

inline constexpr int64_t kSaveTimeout = 300;  // seconds, where nobody says another one

// What is to be launched.
struct Request {
  std::string where;                           // the text after the launcher's name: "4" of local:4
  std::vector<std::string> command;            // the program's words: "train", "recipes/digits.toml", …
  int64_t restarts = 10;                       // at most, in a row
  Coordinator coordinator;                     // an etcd that runs; without an address: one of this launch's own
  std::vector<Variable> environment;           // beside what tells each process its place
  std::string accelerator;                     // what --platform of train names, where it is no CPU: "tpu"
  std::vector<std::vector<std::string>> gpus;  // of local: those of each process; empty: they use none

  // Of launchers that copy what they run (Launcher::copies).
  std::string recipe;     // the word of the command that names it
  std::string plugin;     // the file
  int64_t batch = 0;      // what the recipe's batches have in common: a number of hosts must divide it
  std::string directory;  // where the processes run, and all hosts see the same files
  // How a batch is divided, where the run may go on with fewer hosts.
  int64_t accumulate = 1;   // the recipe's
  int64_t rows = 0;         // of a batch, for each part that a process cuts its own into; 0: the hosts' devices say how many
  bool batch_norm = false;  // the model's figures depend on the rows of a micro-batch

  std::string program;              // where the hosts have the program, for launchers that don't copy it; empty: as here
  std::string image, volume;        // of containers: what they run, and "CLAIM:PATH", the disk that they share
  std::string topology;             // of TPUs, as "v5e:16x16"
  std::optional<int64_t> pod_gpus;  // of jobset: how many each pod asks for
  // Of a job or a pod that is to end, for its last checkpoint.
  std::optional<int64_t> save_timeout;  // seconds; absent: kSaveTimeout
  std::vector<std::string> options;     // for the program that starts the processes elsewhere, as they are
  std::optional<Elastic> elastic;       // how many hosts will do; absent: all
};

struct Launcher {
  std::string_view name;     // "local"
  std::string_view words;    // "local:N"
  std::string_view summary;  // one line of help, no full stop
  std::string_view example;  // the words of a command that works: "local:2"
  bool copies = false;       // program, plugin and recipe to the hosts

  // Looks at nothing but the request and files here. A usage Error says what is wrong with it.
  Plan (*plan)(const Request& request);
  // Starts what plan() shows and returns when it has ended, with the exit code of the run
  // (cluster/launch/processes/supervise.h), or when it was handed over to a scheduler.
  Exit (*run)(const Request& request);
};

// launchers.def, in its order.
const std::vector<const Launcher*>& launchers();

// Of "local:4": the launcher; `where` becomes "4". A usage Error names those there are.
const Launcher& find_launcher(const std::string& place, std::string& where);

// A command that shows how `launcher` is used.
std::string example_of(const Launcher& launcher);
// The words of the command, the program's path first.
std::vector<std::string> program_words(const Request& request);
// A name of the run for schedulers, from the recipe's: small letters, digits and '-', at most 40.
std::string run_name(const Request& request);
// Gives `plan.written` to `plan.submit`, which has `environment` beside this process's. A device Error where there is no such
// program, or it fails.
Exit submit(const Plan& plan, std::vector<Variable> environment = {});
// The number behind a launcher's name. A usage Error where it is none or out of bounds.
int64_t process_count(const Request& request, const Launcher& launcher);

#define LAUNCHER(object) extern const Launcher object;
#include "cluster/launch/launchers.def"
#undef LAUNCHER

}  // namespace tessera::launch
