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

// A loop that has not moved for so long hangs. Said so early, the first process has it within 15 s (HangWatch).
inline constexpr std::chrono::seconds kHangsAfter{12};
// What may well take longer: the first step and the first batches of an evaluation, for which plugins tune kernels and connect,
// and calls about files of the run.
inline constexpr std::chrono::seconds kSlowHangsAfter{60};
// Until a process ends that hangs in such a first step or batch, whatever the patience with others.
inline constexpr std::chrono::minutes kFirstPatience{30};
// And in a call about a file, in patiences: one writes up to 1 GiB, perhaps to a disk that others use too.
inline constexpr double kFilePatience = 5;
// Steps and batches that are slow as ever don't hang: not before so many times the longest of that phase. Nor does a process
// end before so many times the longest wait in any phase, first steps and batches included: what is slow is so from the first
// one on, and may move from one phase to another. A device that is throttled takes three times as long.
inline constexpr double kTimesLongest = 5;

// Phases that are none of loop_phases.h, as a save, a compilation or the scores of an evaluation, may take as long as they do.
// There a call about a file counts that does not return; without one no process ends, and after so long it is said.
inline constexpr std::chrono::minutes kOtherHangsAfter{30};

class Standstill {
 public:
  using Clock = std::chrono::steady_clock;

  enum class In { kInput, kDevices, kFile, kOther };
  struct Seen {
    In in = In::kOther;
    // That it stands still: without waits for other processes, and without time in which this one was stopped.
    double seconds = 0;
    bool hangs = false, too_long = false;
  };

  // `patience`: after which it is too long, but for the constants above; 0 is never.
  explicit Standstill(std::chrono::seconds patience) : patience_(patience) {}

  Seen look(const LoopView& view, Clock::time_point now);
  // How long the loop has been in its phase, waits for other processes included.
  double in_phase() const { return in_phase_; }

 private:
  struct Limits {
    double hangs, too_long;
  };
  Limits limits(In in, const LoopView& view) const;
  Seen judge(In in, double seconds, const LoopView& view) const;

  const std::chrono::seconds patience_;
  std::optional<Clock::time_point> looked_;
  double waited_for_others_ = 0;
  int64_t step_ = 0;     // at the last look
  std::string phase_;    // likewise; empty: none
  int64_t begin_ = 0;    // of that phase
  bool counts_ = false;  // whether the phase is one of many like it
  // Seconds: in that phase, and of these without waits for others.
  double in_phase_ = 0, still_ = 0;
  // The longest standstills: by name of the phase, without first steps and batches; and of all waits for input and devices.
  std::map<std::string, double> longest_;
  double longest_of_all_ = 0;
};

}  // namespace tessera::train
