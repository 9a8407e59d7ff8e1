#pragma once
// The hosts of TPU slices, as Google's cloud tells each of them. A run has one process on each.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cluster/group/environment.h"

namespace tessera::group {

struct TpuHost {
  int64_t process_id = 0, num_processes = 1;
  std::string first;  // process 0's host: a name or an address; empty where several slices don't tell it
};

// Attributes of a TPU VM by their names; empty where it has none.
using TpuAttributes = std::function<std::string(const std::string& name)>;
// From the metadata server, which is asked on machines of that cloud alone.
std::string tpu_attribute(const std::string& name);

// What GKE sets for libtpu: TPU_WORKER_ID and the names in TPU_WORKER_HOSTNAMES. Without these, what the attributes of a TPU VM say:
// agent-worker-number and worker-network-endpoints. MEGASCALE_SLICE_ID, MEGASCALE_NUM_SLICES and MEGASCALE_COORDINATOR_ADDRESS, of
// the environment or of the attribute tpu-env, say which of several slices this is and where the first one is. As
// jax/_src/clusters/cloud_tpu_cluster.py reads them. Nothing where the slice is one host, where neither says anything, and where
// `count` is given and they make another number. A usage Error where they contradict each other.
std::optional<TpuHost> find_tpu_host(const Environment& environment, const TpuAttributes& attributes,
                                     std::optional<int64_t> count = {});

}  // namespace tessera::group
