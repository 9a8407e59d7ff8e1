#include "train/process/standstill.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "train/process/loop_phases.h"

namespace tessera::train {
namespace {

using std::chrono::duration;

// Between two looks more has passed only where the process was stopped, as in a debugger, or got no processor.
constexpr std::chrono::seconds kMaxBetweenLooks{5};
// Results are read a batch behind the devices.
constexpr int64_t kFirstBatches = 2;

Standstill::In kind_of(std::string_view phase) {
  if (phase == kWaitForInput || phase == kEvaluationInput) return Standstill::In::kInput;
  for (const char* name : {kTransfer, kWaitForTransfer, kDispatch, kWaitForDevice, kEvaluationBatch}) {
    if (phase == name) return Standstill::In::kDevices;
  }
  return Standstill::In::kOther;
}

// Whether the phase is of a first step or batch.
bool is_first(const LoopView& view) {
  const std::string_view name = view.phase->name;
  const bool evaluates = name == kEvaluationInput || name == kEvaluationBatch;
  return evaluates ? view.phase->number < kFirstBatches : view.step == 0;
}

}  // namespace

Standstill::Limits Standstill::limits(In in, const LoopView& view) const {
  const double slow = duration<double>(kSlowHangsAfter).count(), patience = duration<double>(patience_).count();
  if (in == In::kOther) return {duration<double>(kOtherHangsAfter).count(), std::numeric_limits<double>::infinity()};
  if (in == In::kFile) return {slow, kFilePatience * patience};
  if (is_first(view)) return {slow, std::max(patience, duration<double>(kFirstPatience).count())};
  const auto longest = longest_.find(phase_);
  const double usual = longest == longest_.end() ? 0 : kTimesLongest * longest->second;
  return {std::max(duration<double>(kHangsAfter).count(), usual), std::max(patience, kTimesLongest * longest_of_all_)};
}

Standstill::Seen Standstill::judge(In in, double seconds, const LoopView& view) const {
  const Limits limit = limits(in, view);
  const bool too_long = patience_.count() > 0 && seconds >= limit.too_long;
  return {in, seconds, too_long || seconds >= limit.hangs, too_long};
}

Standstill::Seen Standstill::look(const LoopView& view, Clock::time_point now) {
  const Clock::duration since = looked_ ? std::min<Clock::duration>(now - *looked_, kMaxBetweenLooks) : Clock::duration::zero();
  looked_ = now;
  const double passed = duration<double>(since).count();
  const double for_others = std::clamp(view.waited_for_others - waited_for_others_, 0.0, passed);
  waited_for_others_ = view.waited_for_others;

  const int64_t begin = view.phase ? view.phase->begin : 0;
  const std::string_view phase = view.phase ? view.phase->name : "";
  const In in = kind_of(phase);
  if (view.step != step_ || begin != begin_ || phase != phase_) {
    if (kind_of(phase_) != In::kOther) longest_of_all_ = std::max(longest_of_all_, still_);
    if (counts_) longest_[phase_] = std::max(longest_[phase_], still_);
    step_ = view.step;
    begin_ = begin;
    phase_ = phase;
    in_phase_ = still_ = 0;
  } else {
    in_phase_ += passed;
    still_ += passed - for_others;
  }
  counts_ = in != In::kOther && !is_first(view);

  if (in == In::kOther && view.file) {
    Seen file = judge(In::kFile, std::min(still_, view.file->seconds), view);
    if (file.hangs) return file;
  }
  return judge(in, still_, view);
}

}  // namespace tessera::train
