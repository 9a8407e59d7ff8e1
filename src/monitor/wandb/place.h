#pragma once
// Where a run's file lies for W&B, and as whose.

#include <string>

#include "monitor/sinks/sink.h"
#include "monitor/wandb/records.h"

namespace tessera::monitor {

struct WandbPlace {
  std::string directory, id;
  bool known = false;  // of an earlier start

  std::string file() const;  // its path
};

// The directory of earlier starts, or one to be made: <workdir>/wandb, which is made, holds both. A new run's id is WANDB_RUN_ID,
// or random.
WandbPlace wandb_place(store::FileSystem& files, const RunStart& start);

// Of a run that starts now, named as W&B's variables say.
WandbRun wandb_run_of(const RunStart& start, const std::string& id);

// A name for a file or an id: anything but letters, digits, '-' and '_' becomes '_'.
std::string wandb_plain(std::string name);

}  // namespace tessera::monitor
