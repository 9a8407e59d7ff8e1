#include "cluster/launch/processes/supervise.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/log.h"
#include "cluster/launch/processes/signals.h"
#include "store/encoding/digest.h"

namespace tessera::launch {
namespace {

using Clock = std::chrono::steady_clock;

// When one has ended with a failure the others notice within their patience, and end.
constexpr std::chrono::seconds kOthersEnd{30};
// The same after all were asked to save.
constexpr std::chrono::minutes kOthersSave{10};
constexpr std::chrono::seconds kLongestPause{60};

// All processes once, from start to end.
class Run {
 public:
  explicit Run(Children children) : children_(std::move(children)) {}

  // Waits for all of them. The first signal that asked for the end; 0: none did.
  int wait(const AskToRegroup& regroup) {
    int asked = 0;
    std::optional<Clock::time_point> failed_at;
    while (!all_ended()) {
      for (const auto& child : children_) child->tick();
      if (!failed_at && first_failure()) failed_at = Clock::now();
      if (failed_at && asked == 0 && Clock::now() - *failed_at > patience()) send(SIGKILL);
      if (regroup && !regroups_ && asked == 0 && all_run()) ask_to_regroup(regroup());
      const BlockedSignals::Signal signal = BlockedSignals::wait(std::chrono::seconds(1));
      if (signal.number == 0 || signal.number == SIGCHLD) continue;
      if (asked == 0) asked = signal.number;
      // The terminal's Ctrl-C has reached those of its group already, and a second one ends them without saving.
      for (const auto& child : children_) {
        if (!child->serves()) child->send(signal.from_terminal && !child->own_group() ? SIGCONT : signal.number);
      }
    }
    for (const auto& child : children_) {
      if (!child->serves()) child->wait();  // for what they said last
    }
    return asked;
  }

  // The first, in the order of ends as they were noticed, that did not end well.
  const Child* first_failure() {
    for (const auto& child : children_) {
      if (!failure_ && child->ended() && (child->serves() || child->exit() != Exit::kDone)) failure_ = child.get();
    }
    return failure_;
  }
  // An exit code that another start would end with as well.
  std::optional<Exit> mistake() const {
    for (const auto& child : children_) {
      if (child->serves()) continue;
      const std::optional<Exit> exit = child->exit();
      if (exit && *exit != Exit::kDone && *exit != Exit::kPreempted) return exit;
    }
    return std::nullopt;
  }
  // One that was lost is why the others ended.
  std::string why() const {
    for (const auto& child : children_) {
      if (child->ended() && !child->exit()) return child->end();
    }
    return failure_->end();
  }
  // Whether all saved and ended because they were asked to regroup.
  bool regrouped() const {
    return regroups_ && std::ranges::all_of(
                            children_, [](const auto& child) { return child->serves() || child->exit() == Exit::kPreempted; });
  }
  // After that signal. Where all were asked to regroup before it came, process 0 may have ended for that.
  Exit leaders_exit(int asked) const {
    const Exit exit = children_[0]->exit().value_or(Exit::kPreempted);
    return regroups_ && exit == Exit::kPreempted ? exit_after(asked) : exit;
  }

 private:
  bool all_ended() {
    bool all = true;
    for (const auto& child : children_) all = (child->ended() || child->serves()) && all;
    return all;
  }
  bool all_run() const {
    return std::ranges::none_of(children_, [](const auto& child) { return child->ended(); });
  }
  void ask_to_regroup(const std::string& why) {
    if (why.empty()) return;
    log_line(why);
    regroups_ = true;
    for (const auto& child : children_) {
      if (!child->serves()) child->send(SIGTERM);
    }
  }
  // Of the others, once one has ended with a failure.
  std::chrono::seconds patience() const { return regroups_ && failure_->exit() == Exit::kPreempted ? kOthersSave : kOthersEnd; }
  void send(int signal) const {
    for (const auto& child : children_) child->send(signal);
  }

  const Children children_;
  const Child* failure_ = nullptr;
  bool regroups_ = false;
};

// How one attempt ended: with an exit code for good, or with a reason to try again; empty where all were only asked to regroup.
struct Outcome {
  std::optional<Exit> exit;
  std::string why;
};

Outcome attempt_once(const StartAll& start, int64_t attempt, const AskToRegroup& regroup) {
  try {
    Run run(start(attempt));
    const int asked = run.wait(regroup);
    const Child* failure = run.first_failure();
    if (!failure) return {Exit::kDone, {}};
    if (asked != 0) return {run.leaders_exit(asked), {}};
    if (const auto mistake = run.mistake()) return {mistake, {}};
    return {std::nullopt, run.regrouped() ? "" : run.why()};
  } catch (const NotNow& not_now) {
    return {std::nullopt, not_now.why};
  }
}

}  // namespace

std::string run_id(int64_t attempt) {
  // Launches of several machines, or in containers, may have one number as processes, and one etcd.
  static const std::string launch = store::random_hex(8);
  return fmt::format("launch-{}-{}", launch, attempt);
}

Exit supervise(const StartAll& start, int64_t restarts, const std::string& who, std::chrono::milliseconds steady,
               const AskToRegroup& regroup) {
  const BlockedSignals signals;
  for (int64_t attempt = 0, restart = 0;; ++attempt) {
    const Clock::time_point began = Clock::now();
    const Outcome outcome = attempt_once(start, attempt, regroup);
    if (outcome.exit) return *outcome.exit;
    if (Clock::now() - began >= steady) restart = 0;
    std::chrono::seconds later{0};
    if (!outcome.why.empty()) {
      if (restart == restarts) {
        log_error(fmt::format("{}, and the run was started again {} times in a row already", outcome.why, restart));
        return Exit::kPreempted;
      }
      later = std::min(kLongestPause, std::chrono::seconds(int64_t{1} << std::min<int64_t>(restart, 6)));
      ++restart;
      log_line(fmt::format("{}; {} start again in {} s, from the last checkpoint (restart {} of {})", outcome.why, who,
                           later.count(), restart, restarts));
    }
    // Also one that came as the last process ended, or before the first began.
    if (const int asked = BlockedSignals::wait_for_request(later).number; asked != 0) return exit_after(asked);
  }
}

}  // namespace tessera::launch
