#pragma once
// Sums and rows over the processes of a run (ir/processes.h), as calls of a compiled program.

#include "cluster/group/exchange.h"

namespace tessera::host {

// The exchange that programs of this process call; null: this process is alone. It must outlive every program that runs.
void set_exchange(group::Exchange* exchange);

}  // namespace tessera::host
