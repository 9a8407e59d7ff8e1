// local:N: several processes on this machine.

#include <fmt/format.h>
#include <sched.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/text/text.h"
#include "cluster/group/local_etcd.h"
#include "cluster/launch/launcher.h"
#include "cluster/launch/processes/supervise.h"

namespace tessera::launch {
namespace {

std::vector<ProcessPlan> processes_of(const Request& request, const Coordinator& coordinator, const std::string& run) {
  const int64_t count = process_count(request, kLocal);
  std::vector<ProcessPlan> out;
  for (int64_t process = 0; process < count; ++process) {
    ProcessPlan& one = out.emplace_back();
    one.host = fmt::format("process {}", process);
    one.environment = request.environment;
    if (!request.gpus.empty())
      one.environment.push_back({"CUDA_VISIBLE_DEVICES", join(request.gpus[static_cast<size_t>(process)], ",")});
    for (Variable& variable : place_variables(process, count, coordinator, run)) one.environment.push_back(std::move(variable));
    one.command = {"tessera"};
    one.command.insert(one.command.end(), request.command.begin(), request.command.end());
  }
  return out;
}

Plan plan_local(const Request& request) {
  Plan plan;
  const bool named = !request.coordinator.address.empty();
  const Coordinator own{fmt::format("127.0.0.1:{}", kPort), {}};
  if (!named) plan.notes.push_back(fmt::format("an etcd at {}, started for this launch", own.address));
  plan.processes = processes_of(request, named ? shown(request.coordinator) : own, kRun);
  return plan;
}

// Process 0 has the terminal; what the others say is shown with their number.
std::unique_ptr<Child> start(ProcessPlan process, int64_t index, int64_t count) {
  ChildOptions options;
  options.name = process.host;
  options.command = std::move(process.command);
  options.command[0] = std::filesystem::read_symlink("/proc/self/exe");
  options.environment = std::move(process.environment);
  options.processors = share_of_processors(index, count);
  if (index > 0) options.on_line = [index](const std::string& line) { log_line(fmt::format("[{}] {}", index, line)); };
  return std::make_unique<Child>(std::move(options));
}

Exit run_local(const Request& request) {
  const int64_t count = process_count(request, kLocal);
  std::optional<group::LocalEtcd> own;
  if (request.coordinator.address.empty()) own.emplace();
  const auto start_all = [&](int64_t attempt) {
    if (own) own->revive();
    Children children;
    std::vector<ProcessPlan> processes =
        processes_of(request, own ? Coordinator{own->address(), {}} : request.coordinator, run_id(attempt));
    for (int64_t i = 0; i < count; ++i) children.push_back(start(std::move(processes[static_cast<size_t>(i)]), i, count));
    return children;
  };
  return supervise(start_all, request.restarts, fmt::format("all {}", count));
}

}  // namespace

const Launcher kLocal = {
    "local",   "local:N",        "N processes on this machine, each with its share of the processors and GPUs",
    "local:2", /*copies=*/false, plan_local,
    run_local};

}  // namespace tessera::launch
