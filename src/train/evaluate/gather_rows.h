#pragma once
// What each process worked off of a data set, put together.

#include "train/evaluate/evaluate.h"
#include "train/process/processes.h"

namespace tessera::train {

// The rows of all processes in the source's order, the same in each of them. What one process has of its own set stays as it is.
SetRows gather(Processes& processes, SetRows own);

}  // namespace tessera::train
