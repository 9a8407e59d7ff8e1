#pragma once
// What others ask of a run while it trains. The loop looks between two steps, and while it waits for its input.

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "train/process/stop_signal.h"
#include "train/reporting/profiles.h"

namespace tessera::train {

// What became of a save.
struct SaveOutcome {
  int64_t step = 0;
  std::string path;     // of the checkpoint, in the workdir
  std::string failure;  // empty: it is committed
};

class RunControl {
 public:
  // Called once, from any thread. Must not throw.
  using Saved = std::function<void(const SaveOutcome&)>;

  // Both are borrowed; without `profiles` none can be asked for.
  explicit RunControl(StopSignal& stop, Profiles* profiles = nullptr) : stop_(stop), profiles_(profiles) {}
  // end(), if nobody called it.
  ~RunControl() { end("the run ended"); }
  RunControl(const RunControl&) = delete;
  RunControl& operator=(const RunControl&) = delete;

  // ---- for those who ask, on any thread ----
  // A checkpoint of the step at hand, whatever `checkpoint.every` says; several who ask meanwhile get the same one.
  void save(Saved saved);
  // The end, as after Ctrl-C: the step is finished and saved.
  void stop() { stop_.ask(); }
  // A profile of so many seconds from now on.
  void profile(double seconds, const Profiles::Done& done);

  // ---- for the loop ----
  bool save_wanted() const { return save_wanted_.load(std::memory_order_relaxed); }
  // Those who wait for a save: whoever takes them answers them.
  std::vector<Saved> take();
  // The run takes no more requests. Whoever waits for an answer, or asks from now on, gets `why`.
  void end(const std::string& why);

 private:
  StopSignal& stop_;
  Profiles* profiles_;
  std::mutex mutex_;
  std::atomic<bool> save_wanted_{false};
  std::vector<Saved> waiting_;
  std::optional<std::string> ended_;
};

}  // namespace tessera::train
