// mpi:N: N processes that mpirun starts, on the hosts that it knows of.

#include <fmt/format.h>
#include <signal.h>

#include <memory>
#include <optional>
#include <string>

#include "cluster/group/addresses.h"
#include "cluster/group/local_etcd.h"
#include "cluster/group/run_key.h"
#include "cluster/launch/launcher.h"
#include "cluster/launch/processes/supervise.h"

namespace tessera::launch {
namespace {

// Where nothing is said to mpirun, it starts all here.
bool all_here(const Request& request) { return request.options.empty(); }

// mpirun kills what runs where it gets SIGTERM; SIGXCPU it passes on, and train saves and ends with 75.
class Mpirun final : public Child {
 public:
  using Child::Child;
  std::string end() const override { return exit() ? Child::end() : "a process of mpirun was killed"; }
  void send(int signal) override { Child::send(signal == SIGKILL ? SIGKILL : SIGXCPU); }
};

ProcessPlan process_of(const Request& request, const Coordinator& coordinator, const std::string& run) {
  ProcessPlan one;
  one.environment = request.environment;
  for (Variable& variable : meeting_variables(coordinator, run)) one.environment.push_back(std::move(variable));
  one.command = {"mpirun",    "--quiet", "-np",   std::to_string(process_count(request, kMpi)),
                 "--bind-to", "none",    "--mca", "ess_base_forward_signals",
                 "SIGXCPU"};
  for (const Variable& variable : one.environment) one.command.insert(one.command.end(), {"-x", variable.name});
  one.command.insert(one.command.end(), request.options.begin(), request.options.end());
  for (std::string& word : program_words(request)) one.command.push_back(std::move(word));
  return one;
}

Plan plan_mpi(const Request& request) {
  Plan plan;
  const bool named = !request.coordinator.address.empty();
  const Coordinator own{fmt::format("{}:{}", all_here(request) ? "127.0.0.1" : "ADDRESS", kPort),
                        all_here(request) ? "" : kKey};
  if (!named) {
    plan.notes.push_back(fmt::format("an etcd on this machine at {}, started for this launch{}", own.address,
                                     own.key.empty() ? "" : ", with a key of its own"));
  }
  plan.processes = {process_of(request, named ? shown(request.coordinator) : own, kRun)};
  return plan;
}

Exit run_mpi(const Request& request) {
  std::optional<group::LocalEtcd> own;
  Coordinator coordinator = request.coordinator;
  if (coordinator.address.empty()) {
    coordinator.key = all_here(request) ? "" : group::new_run_key();
    own.emplace(all_here(request) ? "127.0.0.1" : group::own_address(), coordinator.key);
  }
  const auto start_all = [&](int64_t attempt) {
    if (own) {
      own->revive();
      coordinator.address = own->address();
    }
    ProcessPlan process = process_of(request, coordinator, run_id(attempt));
    ChildOptions options;
    options.name = "mpirun";
    options.command = std::move(process.command);
    options.environment = std::move(process.environment);
    options.own_group = true;
    Children children;
    children.push_back(std::make_unique<Mpirun>(std::move(options)));
    return children;
  };
  const Exit exit = supervise(start_all, request.restarts, fmt::format("all {}", request.where));
  if (static_cast<int>(exit) == 127)
    throw device_error("`mpirun` is not installed here", {},
                       "apt-get install openmpi-bin, or launch by ssh: tessera launch --help");
  return exit;
}

}  // namespace

const Launcher kMpi = {
    "mpi",   "mpi:N",          "N processes by Open MPI's mpirun; --option=--hostfile --option=FILE says where",
    "mpi:2", /*copies=*/false, plan_mpi,
    run_mpi};

}  // namespace tessera::launch
