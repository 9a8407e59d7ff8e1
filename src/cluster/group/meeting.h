#pragma once
// Where the processes of a run meet.

#include <memory>
#include <string>

#include "cluster/group/local_etcd.h"
#include "cluster/group/place.h"

namespace tessera::group {

// A process's place. Where nobody named a coordinator, the leader starts an etcd. If mpirun or srun started the processes, PMIx
// tells the others its address and key. The hosts of TPUs know the address. PMIx itself can't be the group: it brings no news of a
// process that died (Open MPI's and Slurm's servers take no handlers of events).
class Meeting {
 public:
  // As find_place(), or by PMIx. Throws what that and LocalEtcd throw, and a device Error where the server of PMIx fails.
  explicit Meeting(const PlaceOptions& options, const Environment& environment = process_environment(),
                   const TpuAttributes& attributes = tpu_attribute);
  // Where the etcd is this process's, waits until the others have left it.
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  const Place& place() const { return place_; }

 private:
  void meet_by_pmix(const std::string& run);
  void start_etcd_for_pmix(bool one_host);

  Place place_;
  std::unique_ptr<LocalEtcd> etcd_;
};

}  // namespace tessera::group
