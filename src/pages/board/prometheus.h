#pragma once
// The newest figures of runs as Prometheus scrapes them (text format 0.0.4).

#include <memory>
#include <string>
#include <vector>

#include "pages/board/runs/watched_run.h"

namespace tessera::board {

// A gauge for each figure: `val/prec@1` of run digits-1 is tessera_val_prec_1{run="digits-1",metric="val/prec@1"}; and
// tessera_step{run}; of each process of several tessera_process_step{run,process,host} and others; and
// tessera_run_state{run,state}, 1 for the state that it has.
std::string prometheus_text(const std::vector<std::shared_ptr<WatchedRun>>& runs);

}  // namespace tessera::board
