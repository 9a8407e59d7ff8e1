#include "cluster/group/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "base/text/digits.h"
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

int64_t whole_number(const char* name, const std::string& text) {
  const auto value = parse_digits(text);
  if (!value) throw usage_error(fmt::format("{} is `{}`, which is no whole number", name, text), "the environment");
  return *value;
}

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

// Reads what GKE sets for libtpu: one process on each host of a slice, over all slices of the job. Ignored where it contradicts a
// count that is given, or where the slice has one host (`localhost`): then other variables say which processes a run has.
void ask_tpu(const Environment& environment, std::optional<int64_t>& id, std::optional<int64_t>& count) {
  constexpr const char *kWorker = "TPU_WORKER_ID", *kHosts = "TPU_WORKER_HOSTNAMES", *kSlice = "MEGASCALE_SLICE_ID",
                       *kSlices = "MEGASCALE_NUM_SLICES";
  const auto worker = environment(kWorker), hosts = environment(kHosts), slice = environment(kSlice),
             slices = environment(kSlices);
  if (!worker || !hosts) return;
  const auto known = static_cast<int64_t>(split(*hosts, ',').size());
  const int64_t in_slice = whole_number(kWorker, *worker),
                parts = slices ? std::max<int64_t>(whole_number(kSlices, *slices), 1) : 1;
  constexpr int64_t kMax = 1'000'000;  // so that no product overflows
  if (known > kMax || parts > kMax) return;
  const int64_t all = known * parts;
  if (all == 1 || (count && *count != all)) return;
  if (parts > 1 && !slice)
    throw usage_error(fmt::format("{} is {}, and {} is not set", kSlices, parts, kSlice), "the environment");
  const int64_t part = parts > 1 ? whole_number(kSlice, *slice) : 0;
  if (in_slice >= known) {
    throw usage_error(fmt::format("{} is {}, and {} names {} host{}, counted from 0", kWorker, in_slice, kHosts, known,
                                  known == 1 ? "" : "s"),
                      "the environment");
  }
  if (part >= parts) {
    throw usage_error(fmt::format("{} is {}, and {} is {}: slices are counted from 0", kSlice, part, kSlices, parts),
                      "the environment");
  }
  if (!id) id = part * known + in_slice;
  count = all;
}

// The index in a Kubernetes job is that within one slice then.
bool several_slices(const Environment& environment) {
  const auto slices = environment("MEGASCALE_NUM_SLICES");
  return slices && *slices != "1";
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  };
}

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

Place find_place(const PlaceOptions& options, const Environment& environment) {
  std::optional<int64_t> id = options.process_id, count = options.num_processes;
  refuse_key_alone(options.key, options.coordinator);
  // A run that was started by hand on a machine of a scheduler is no part of a job.
  const auto wanted = [&] { return !options.coordinator.empty() && !(id && count); };
  if (wanted()) ask_schedulers(kStarters, environment, id, count);
  if (wanted() && several_slices(environment)) ask_tpu(environment, id, count);
  if (wanted()) ask_schedulers(kPods, environment, id, count);
  if (wanted()) ask_tpu(environment, id, count);
  // The pod of a host by itself may have the coordinator's address, as all others.
  const auto hosts = environment("TPU_WORKER_HOSTNAMES");
  const bool by_itself = hosts && split(*hosts, ',').size() == 1;
  if (!id && !count && (options.coordinator.empty() || by_itself)) return {};
  constexpr const char* kHelp =
      "give each process --num-processes, --process-id and --coordinator-address, or start them with "
      "tessera launch";
  if (!count) {
    throw usage_error(
        fmt::format("{} is given, and not how many processes there are", id ? "--process-id" : "--coordinator-address"), {},
        kHelp);
  }
  if (*count == 1) return {};
  if (!id) throw usage_error(fmt::format("this is one of {} processes, and nothing says which", *count), {}, kHelp);
  if (*id >= *count) {
    throw usage_error(fmt::format("--process-id is {}, and there are {} processes, counted from 0", *id, *count), {}, kHelp);
  }
  if (options.coordinator.empty())
    throw usage_error(fmt::format("{} processes need a coordinator to meet at", *count), {}, kHelp);
  return {*id, *count, options.coordinator, options.run.empty() ? scheduled_run(environment) : options.run,
          read_run_key(options.key)};
}

}  // namespace tessera::group
