#include "cluster/group/place.h"

#include <fmt/format.h>

#include <span>

#include "base/error.h"
#include "base/text/text.h"
#include "cluster/group/run_key.h"

namespace tessera::group {
namespace {

struct Scheduler {
  const char *id, *count;
};
// Those that count the processes of a run, however many are on a host; then a pod's index, which counts within one job.
constexpr Scheduler kStarters[] = {{"SLURM_PROCID", "SLURM_NTASKS"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}},
                    kPods[] = {{"JOB_COMPLETION_INDEX", "TESSERA_NUM_PROCESSES"}};

// Of what started the process: its id and their number.
void ask_schedulers(std::span<const Scheduler> schedulers, const Environment& environment, std::optional<int64_t>& id,
                    std::optional<int64_t>& count) {
  for (const Scheduler& scheduler : schedulers) {
    const auto found_id = environment(scheduler.id), found_count = environment(scheduler.count);
    if (!found_id || !found_count) continue;
    if (!id) id = whole_number(scheduler.id, *found_id);
    if (!count) count = whole_number(scheduler.count, *found_count);
    return;
  }
}

// The index in a Kubernetes job is that within one slice then.
bool several_slices(const Environment& environment) {
  const auto slices = environment("MEGASCALE_NUM_SLICES");
  return slices && *slices != "1";
}

}  // namespace

std::string scheduled_run(const Environment& environment) {
  if (const auto job = environment("SLURM_JOB_ID")) {
    return fmt::format("slurm-{}.{}.{}", *job, environment("SLURM_STEP_ID").value_or("0"),
                       environment("SLURM_RESTART_COUNT").value_or("0"));
  }
  if (const auto job = environment("OMPI_MCA_ess_base_jobid")) return "mpi-" + *job;
  return "run";
}

bool several_by_pmix(const Environment& environment) {
  if (!environment("PMIX_NAMESPACE") || !environment("PMIX_RANK")) return false;
  std::optional<int64_t> id, count;
  ask_schedulers(kStarters, environment, id, count);
  if (!count) ask_schedulers(kPods, environment, id, count);
  return !count || *count > 1;
}

Place find_place(const PlaceOptions& options, const Environment& environment, const TpuAttributes& attributes) {
  std::optional<int64_t> id = options.process_id, count = options.num_processes;
  std::string coordinator = options.coordinator;
  // Who is given some chips of a host, as a run of a sweep is, trains on these.
  const bool on_slices = options.on_tpu && !environment("TPU_VISIBLE_CHIPS");
  const TpuAttributes ask = on_slices ? attributes : [](const std::string&) { return std::string(); };
  const auto ask_tpu = [&] {
    const auto host = find_tpu_host(environment, ask, count);
    if (!host) return;
    if (!id) id = host->process_id;
    count = host->num_processes;
    // Nobody is there who could tell another port.
    if (coordinator.empty() && !host->first.empty()) coordinator = fmt::format("{}:{}", host->first, kTpuPort);
  };
  if (on_slices && coordinator.empty() && !id && !count) ask_tpu();
  refuse_key_alone(options.key, coordinator);
  // A run that was started by hand on a machine of a scheduler is no part of a job.
  const auto wanted = [&] { return !coordinator.empty() && !(id && count); };
  if (wanted()) ask_schedulers(kStarters, environment, id, count);
  if (wanted() && several_slices(environment)) ask_tpu();
  if (wanted()) ask_schedulers(kPods, environment, id, count);
  if (wanted()) ask_tpu();
  // The pod of a host by itself may have the coordinator's address, as all others.
  const auto hosts = environment("TPU_WORKER_HOSTNAMES");
  const bool by_itself = hosts && split(*hosts, ',').size() == 1;
  if (!id && !count && (coordinator.empty() || by_itself)) return {};
  constexpr const char* kHowToTell =
      "give each process --num-processes, --process-id and --coordinator-address, or start them with "
      "tessera launch";
  if (!count) {
    throw usage_error(
        fmt::format("{} is given, and not how many processes there are", id ? "--process-id" : "--coordinator-address"), {},
        kHowToTell);
  }
  if (*count == 1) return {};
  if (!id) throw usage_error(fmt::format("this is one of {} processes, and nothing says which", *count), {}, kHowToTell);
  if (*id >= *count) {
    throw usage_error(fmt::format("--process-id is {}, and there are {} processes, counted from 0", *id, *count), {},
                      kHowToTell);
  }
  if (coordinator.empty()) throw usage_error(fmt::format("{} processes need a coordinator to meet at", *count), {}, kHowToTell);
  return {*id, *count, coordinator, options.run.empty() ? scheduled_run(environment) : options.run, read_run_key(options.key)};
}

}  // namespace tessera::group
