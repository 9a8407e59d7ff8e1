#pragma once
// Whether the training loop stands still, as a thread sees it that looks every second: no part of the loop tells it anything.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/system/file_calls.h"
#include "base/system/spans.h"

namespace tessera::train {

// The loop when it is looked at.
struct LoopView {
  std::optional<SpanRecord> phase;   // the innermost one that it is in
  int64_t step = 0;                  // the last one of this start that is done; 0: none
  double waited_for_others = 0;      // seconds so far (Processes::waited_for_others)
  std::optional<SlowFileCall> file;  // of the process: the call about a file under way that has taken longest
};

// A loop that has not moved for so long hangs, or five times as long as it ever was in that phase. So where steps are short, the
// first process says it within 15 s (HangWatch).
inline constexpr std::chrono::seconds kHangs{12};
// What may well take longer: the first step and the first batches of an evaluation, for which plugins tune kernels and connect,
// and files of the run, which are written 1 GiB at a time. What the first ones took is no measure of when others hang; but no
// process ends before five times as long as any wait of this start took, the first ones included: a long step is long from the
// first one on, and a wait that is now for the input may be for the devices later.
inline constexpr std::chrono::seconds kHangsAtLength{60};
// Such a first step or batch has so long until its process ends, whatever the patience with others.
inline constexpr std::chrono::minutes kFirstPatience{30};

// Phases that are none of loop_phases.h, as a save, a compilation or the scores of an evaluation, have no limit; there a call
// about a file that does not return counts.
class Standstill {
 public:
  using Clock = std::chrono::steady_clock;

  enum class In { kInput, kDevices, kFile };
  struct Seen {
    In in = In::kFile;
    // That it stands still: without waits for other processes, and without time in which this one was stopped.
    double seconds = 0;
    bool hangs = false, too_long = false;
  };

  // `patience`: after which it is too long, and after five times as long for a file; 0 is never.
  explicit Standstill(std::chrono::seconds patience) : patience_(patience) {}

  Seen look(const LoopView& view, Clock::time_point now);
  // How long the loop has been in its phase, waits for other processes included.
  double in_phase() const { return in_phase_; }

 private:
  struct Limits {
    double hangs, too_long;
  };
  Limits limits(In in, const LoopView& view) const;

  const std::chrono::seconds patience_;
  std::optional<Clock::time_point> looked_;
  double waited_for_others_ = 0;
  int64_t step_ = 0;     // at the last look
  std::string phase_;    // likewise; empty: none
  int64_t begin_ = 0;    // its
  bool counts_ = false;  // as one of many like it
  double in_phase_ = 0, still_ = 0;
  // Seconds that it stood still: in phases by name, without first steps and batches, and in any, with them.
  std::map<std::string, double> longest_;
  double longest_of_all_ = 0;
};

}  // namespace tessera::train
