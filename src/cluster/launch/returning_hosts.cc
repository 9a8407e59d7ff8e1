#include "cluster/launch/returning_hosts.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::launch {

ReturningHosts::ReturningHosts(std::string directory, ReturnPauses pauses)
    : directory_(std::move(directory)), pauses_(pauses) {}

void ReturningHosts::begin(std::vector<const RemoteHost*> without, int64_t processes, Clock::time_point now) {
  settle(processes, now);
  looks_.clear();
  without_ = std::move(without);
  next_look_ = now + settle_;
  between_ = pauses_.between;
}

void ReturningHosts::settle(int64_t processes, Clock::time_point now) {
  const bool taking_in = std::exchange(taking_in_, false), grew = taking_in && processes > processes_;
  if (took_in_ && now - started_ >= pauses_.kept) {
    settle_ = pauses_.settle;
  } else if (taking_in ? !grew : took_in_) {
    settle_ = std::min(2 * settle_, pauses_.longest_settle);
  }
  processes_ = processes;
  started_ = now;
  took_in_ = grew;
}

std::vector<const RemoteHost*> ReturningHosts::look(Clock::time_point now) {
  if (without_.empty()) return {};
  if (looks_.empty()) {
    if (now >= next_look_) begin_look(now);
    return {};
  }
  const auto ended = [](const std::unique_ptr<Child>& look) { return look->ended(); };
  if (now - look_began_ <= pauses_.answer && !std::ranges::all_of(looks_, ended)) return {};
  std::vector<const RemoteHost*> back;
  for (size_t i = 0; i < looks_.size(); ++i) {
    if (looks_[i]->ended() && looks_[i]->exit_code() == 0) back.push_back(without_[i]);
  }
  end_look(now);
  return back;
}

void ReturningHosts::begin_look(Clock::time_point now) {
  look_began_ = now;
  try {
    for (const RemoteHost* host : without_) looks_.push_back(start_look(*host, directory_));
  } catch (const Error&) {
    end_look(now);  // the system starts no more processes just now, which is no reason to end the run
  }
}

void ReturningHosts::end_look(Clock::time_point now) {
  looks_.clear();
  next_look_ = now + between_;
  between_ = std::min(2 * between_, pauses_.longest_between);
}

}  // namespace tessera::launch
