#include "train/process/stop_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/system/file_calls.h"
#include "train/process/end_process.h"

namespace tessera::train {

using std::chrono::milliseconds;

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
  const auto call = slow_file_call(std::chrono::duration<double>(patience).count());
  // Seen twice: a process that was suspended finds that all its calls took long.
  const bool still = call && call->id == slow_;
  slow_ = call ? call->id : 0;
  if (!still || now - *since_ < patience) return;
  log_error(fmt::format(
      "the run was stopped, and {}: it ends without that file{}\nhelp: see whether the disk answers; the same command "
      "goes on from the last checkpoint",
      text_of(*call), saved ? ", and no step is lost" : ""));
  end_process(saved ? stop_.wanted() : Exit::kData);
}

}  // namespace tessera::train
