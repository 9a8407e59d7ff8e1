#pragma once
// Sums and rows over the processes of a run (ir/processes.h), as calls of a compiled program.

#include "group/exchange.h"

namespace tessera::host {

// What the calls of this process's programs use; null: none can be made. Set before kernels are registered; must outlive every
// program that runs.
void set_exchange(group::Exchange* exchange);

}  // namespace tessera::host
