#pragma once
// Which process of a run this is: from flags, or from what started it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tessera::group {

// One process of a run. The names are those of jax.distributed.initialize.
struct Place {
  int64_t process_id = 0, num_processes = 1;
  std::string coordinator;  // of etcd, as host:port, or of its members with commas; empty where there is one process
  std::string run;          // tells runs of one coordinator apart, and starts of one run
  std::string key = {};     // of TLS with the coordinator (cluster/group/run_key.h); empty: plain

  bool several() const { return num_processes > 1; }
  bool leads() const { return process_id == 0; }
};

// What the command line says (--process-id, --num-processes, --coordinator-address, --run-id, --coordinator-key); what it leaves
// out comes from the environment.
struct PlaceOptions {
  std::optional<int64_t> process_id, num_processes;
  std::string coordinator, run, key = {};
};

// The value of a variable of the environment; nothing where it is not set or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

// Ids and counts are looked for in the options, then in what schedulers set: SLURM_PROCID and SLURM_NTASKS (of srun),
// OMPI_COMM_WORLD_RANK and _SIZE (of mpirun), JOB_COMPLETION_INDEX with TESSERA_NUM_PROCESSES (of Kubernetes' indexed jobs). Then
// in what GKE sets for libtpu: TPU_WORKER_ID and the number of names in TPU_WORKER_HOSTNAMES, over the slices of
// MEGASCALE_SLICE_ID and MEGASCALE_NUM_SLICES; where there are several slices, before Kubernetes' index. A host by itself
// (`localhost`) is none of several.
// The run's name comes from the options, else from SLURM_JOB_ID with SLURM_STEP_ID and SLURM_RESTART_COUNT, else
// OMPI_MCA_ess_base_jobid, else "run". A usage Error says what is missing: a coordinator without a count, a count without an id, an
// id outside the count, variables that contradict each other, no coordinator.
Place find_place(const PlaceOptions& options, const Environment& environment = process_environment());

// Whether mpirun or `srun --mpi=pmix` started this process as one of several.
bool several_by_pmix(const Environment& environment);

// What tells apart the runs that a scheduler starts.
std::string scheduled_run(const Environment& environment);

}  // namespace tessera::group
