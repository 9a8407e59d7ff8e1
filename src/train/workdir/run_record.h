#pragma once
// Keeps a run's run.json (run_facts.h) while it goes on.

#include <cstdint>
#include <string>

#include "pjrt/cache.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "recipe/recipe.h"
#include "train/workdir/run_facts.h"
#include "train/workdir/workdir.h"

namespace tessera::train {

// Keeps the file of a run. Nothing fails where it can't be written: a warning says so, once.
class RunRecord {
 public:
  // `workdir` is borrowed.
  RunRecord(const Workdir& workdir, std::string command, std::string version);

  // Seconds of the last save of the start before this one, where that one was stopped and the save is the one that began at
  // `uptime`, which the checkpoint says; else 0. The file goes on to say so until this start stops with a save of its own. Before
  // started().
  double take_up_save(double uptime);
  // The run is about to train. Nothing is written before.
  void started(const recipe::Recipe& recipe, const pjrt::Client& client, const pjrt::Executable& step,
               const pjrt::CompileReport& report);
  // This start stops after a save; before ended().
  void stopped_after(const LastSave& save) { facts_.last_save = save; }
  // It ended; `state` as in RunFacts.
  void ended(std::string state, std::string message, const pjrt::Client& client);

 private:
  std::string path() const;
  void write() noexcept;

  const Workdir& workdir_;
  RunFacts facts_;
  bool started_ = false, warned_ = false;
};

}  // namespace tessera::train
