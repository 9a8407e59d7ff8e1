#pragma once
// Checkpoints of a run whose hosts each have a directory of their own: each has the files that its processes wrote, and the first
// process's COMMIT says which make a checkpoint. At the start each process gets from the others what it needs and lacks. All
// functions are called by all processes alike.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "train/run/run.h"

namespace tessera::train {

class HostCheckpoints {
 public:
  // Throws a data Error where the first process has none and another one has some.
  explicit HostCheckpoints(Run& run);

  // The newest step before `before` that the first process has a COMMIT of. Of the others nothing.
  std::optional<int64_t> newest(int64_t before) const;
  // What this process needs of it, with all of its headers. Throws a data Error, in all of them, where a file is on no host, and
  // one that is_damage() where it is damaged on all that have it; others where this process alone cannot go on.
  checkpoint::LoadedCheckpoint load(int64_t step);
  // Gives one that is damaged another name, as a directory on one host has it: `step_N.damaged`.
  void put_aside(int64_t step);

 private:
  Run& run_;
  const std::string directory_;             // …/checkpoints, on this host
  std::map<int64_t, std::string> commits_;  // of the first process: the texts
  int64_t loads_ = 0;
};

}  // namespace tessera::train
