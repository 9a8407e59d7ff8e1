#pragma once
// Training, for commands that each get a recipe in their own way.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/flags.h"
#include "cluster/group/members.h"
#include "cluster/group/place.h"
#include "config/section.h"
#include "monitor/sinks/log_file.h"
#include "train/process/device.h"
#include "train/process/hang_watch.h"
#include "train/process/stop_watch.h"
#include "train/trainer.h"

namespace tessera::cli {

struct RecipeToTrain {
  std::function<config::Section()> read;  // what it throws goes into the log too
  std::string path;                       // of the recipe; names the run's directory
  std::string command;                    // as a shell takes it, without flags: `tessera train recipe.toml seed=1`
};

// The flags of train, and what it does with them. Must outlive the Flags it is declared to, which must live while it runs.
class Training {
 public:
  void declare(Flags& flags);
  // Where --workdir is not given.
  void set_workdir(const std::string& path) {
    if (workdir_.empty() && !new_) workdir_ = path;
  }
  // Of --num-processes.
  int64_t processes() const { return processes_.num_processes.value_or(1); }
  Exit run(const RecipeToTrain& recipe, const train::DeviceOptions& device);

 private:
  Exit train(const RecipeToTrain& recipe, const train::DeviceOptions& device, monitor::LogFile& log) const;
  Exit train_at(const group::Place& place, config::Section recipe, const RecipeToTrain& source,
                const train::DeviceOptions& device, monitor::LogFile& log, std::shared_ptr<group::Members>& membership) const;
  bool write_report(const std::string& workdir) const;
  void tell(const train::TrainResult& result, const RecipeToTrain& recipe, const std::string& workdir, bool has_report) const;
  std::string continuing(const RecipeToTrain& recipe, const std::string& workdir) const;
  static std::string next(const train::TrainResult& result, const std::string& workdir);

  const Flags* flags_ = nullptr;
  std::string workdir_;
  std::string log_file_, until_;
  std::optional<int64_t> from_step_;
  std::optional<std::string> board_;
  group::PlaceOptions processes_;
  int64_t meet_timeout_ = group::kMeetTimeout.count();
  int64_t hang_timeout_ = train::kHangTimeout.count();
  std::optional<int64_t> save_timeout_;
  int64_t stop_patience_ = train::kStopPatience.count();
  bool parameters_ = false, no_report_ = false, new_ = false, profile_host_ = false;
};

}  // namespace tessera::cli
