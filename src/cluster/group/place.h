#pragma once
// Which process of a run this is: from flags, or from what started it.

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/group/environment.h"
#include "cluster/group/tpu_hosts.h"

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
  bool on_tpu = false;  // the run uses this host's TPU chips, and has a process on each other host of the slice
};

// Where process 0 of a run on TPUs starts an etcd, when nobody named another one. JAX's processes meet at this port there.
inline constexpr int kTpuPort = 8482;

// Ids and counts are looked for in the options, then in what schedulers set: SLURM_PROCID and SLURM_NTASKS (of srun),
// OMPI_COMM_WORLD_RANK and _SIZE (of mpirun), JOB_COMPLETION_INDEX with TESSERA_NUM_PROCESSES (of Kubernetes' indexed jobs). Then
// in the variables and attributes of a TPU host (cluster/group/tpu_hosts.h). Those of several slices come before Kubernetes' index,
// which counts within one. A host by itself (`localhost`) is none of several. A run on TPUs for which nothing is given has a process on each host of its slices,
// and the coordinator at kTpuPort of the first one; where TPU_VISIBLE_CHIPS is set, it is one process.
// The run's name comes from the options, else from SLURM_JOB_ID with SLURM_STEP_ID and SLURM_RESTART_COUNT, else
// OMPI_MCA_ess_base_jobid, else "run". A usage Error says what is missing: a coordinator without a count, a count without an id, an
// id outside the count, variables that contradict each other, no coordinator.
Place find_place(const PlaceOptions& options, const Environment& environment = process_environment(),
                 const TpuAttributes& attributes = tpu_attribute);

// Whether mpirun or `srun --mpi=pmix` started this process as one of several.
bool several_by_pmix(const Environment& environment);

// What tells apart the runs that a scheduler starts.
std::string scheduled_run(const Environment& environment);

}  // namespace tessera::group
