#include "train/process/stop_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/system/file_calls.h"
#include "train/process/end_process.h"

namespace tessera::train {

using std::chrono::milliseconds;

namespace {

double in_seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

StopWatch::StopWatch(const StopSignal& stop, milliseconds patience, milliseconds short_patience)
    : stop_(stop),
      patience_(patience),
      short_patience_(std::min(patience, short_patience)),
      thread_("stop watch", std::min(short_patience_ / 10, milliseconds(1000)), [this] { look(); }) {}

void StopWatch::look() {
  if (stop_.wanted() == Exit::kDone) return;
  const bool saved = saved_;
  const milliseconds patience = saved || stop_.repeated() ? short_patience_ : patience_;
  const auto now = std::chrono::steady_clock::now();
  if (!since_) since_ = now;
  const auto call = slow_file_call(in_seconds(patience));
  // Seen twice: a process that was suspended finds that all its calls took long.
  const bool still = call && call->id == slow_;
  slow_ = call ? call->id : 0;
  if (!still || now - *since_ < patience) return tell_of_wait(patience, now - *since_);
  log_error(fmt::format(
      "the run was stopped, and {}: it ends without that file{}\nhelp: see whether the disk answers; the same command "
      "goes on from the last checkpoint",
      text_of(*call), saved ? ", and no step is lost" : ""));
  end_process(saved ? stop_.wanted() : Exit::kData);
}

void StopWatch::tell_of_wait(milliseconds patience, std::chrono::nanoseconds since_signal) {
  const double tell_after = in_seconds(short_patience_) / 2;
  if (told_ || in_seconds(since_signal) < tell_after) return;
  const auto call = slow_file_call(tell_after);
  if (!call) return;
  told_ = true;
  const double left = std::max(0.0, in_seconds(patience) - std::min(call->seconds, in_seconds(since_signal)));
  log_warning(fmt::format(
      "the run was stopped and waits for a file: {}; if that goes on it ends without the file in {:.0f} s, and sooner after "
      "another signal",
      text_of(*call), left));
}

}  // namespace tessera::train
