#pragma once
// A run on hosts that commands reach, one process on each.

#include <vector>

#include "cluster/launch/launcher.h"
#include "cluster/launch/remote_host.h"

namespace tessera::launch {

// Program, plugin and recipe come to each host; the processes meet at an etcd on one of them, since all reach each other but maybe
// not this machine. A usage Error where the recipe's batch can't be divided.
Plan plan_remote_run(const Request& request, const std::vector<RemoteHost>& hosts);

// The `accumulate` of `processes` where `most` have the recipe's: the least that divides the batch and leaves no device with more
// rows of a micro-batch. The recipe's where the model has batch norm.
int64_t accumulate_with(const Request& request, int64_t processes, int64_t most);

// Copies what the hosts lack, starts the processes and stays with them (cluster/launch/processes/supervise.h). A device Error
// names hosts that are not reached; with Request::elastic the run begins, and goes on, with those that are, in the largest
// number that divides the batch. Hosts that are back are taken in (cluster/launch/returning_hosts.h).
Exit run_on_hosts(const Request& request, const std::vector<RemoteHost>& hosts);

}  // namespace tessera::launch
