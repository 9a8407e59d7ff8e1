#pragma once
// What a start of a run is asked for besides its recipe.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/remote/run_copy.h"
#include "cluster/group/members.h"
#include "cluster/group/place.h"
#include "monitor/sinks/log_file.h"
#include "train/process/device.h"
#include "train/process/hang_watch.h"
#include "train/process/stop_watch.h"

namespace tessera::train {

struct TrainOptions {
  std::string workdir;  // empty: default_workdir() of the next two
  std::string recipe_path = {};
  bool fresh = false;
  // Told which directory it is, before anything is written in it. What it throws ends the start.
  std::function<void(const std::string& workdir)> on_workdir = {};
  DeviceOptions device = {};
  std::string command = {}, version = {};              // of the program, for run.json
  monitor::LogFile* log = nullptr;                     // opened in the workdir once that is the run's; null: none
  group::Place place = {};                             // among the processes that train this run together
  std::chrono::seconds meeting = group::kMeetTimeout;  // how long it waits for the others at the start
  std::chrono::seconds hang_timeout = kHangTimeout;    // how long one of several that hangs is waited for; 0: for ever
  // How long the last checkpoint may take, from a signal on; nothing: that is not known.
  std::optional<std::chrono::seconds> save_timeout = {};
  // Keeps this process a member until the others know how it ended; null: it is one as long as the run is open.
  std::shared_ptr<group::Members>* membership = nullptr;
  bool parameters = false;    // the table of all parameters, when the run starts
  bool profile_host = false;  // a profile of this start's first steps, instead of monitor.profile's
  // The run is saved and ends after so much of it, of its whole length: "10 epochs", "25 %". Nothing changes but that; the same
  // without it goes on. Empty: it goes to its end.
  std::string until = {};
  std::chrono::milliseconds stop_patience = kStopPatience;  // of its end with a disk that does not answer
  // The run goes back to the checkpoint of this step; later ones are put aside. Nothing: it goes on from the newest one.
  std::optional<int64_t> from_step = {};
  remote::RunCopy* copy = nullptr;  // of the leader whose workdir is this machine's copy of one in a bucket
};

}  // namespace tessera::train
