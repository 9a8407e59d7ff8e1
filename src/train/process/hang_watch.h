#pragma once
// Hangs of one of several processes that is alive: its input, its disk or its devices don't answer, while its lease at the
// coordinator (cluster/group/members.h) is renewed by another thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/system/periodic.h"
#include "cluster/group/members.h"
#include "train/process/standstill.h"

namespace tessera::train {

// How long a process that hangs is waited for: --hang-timeout.
inline constexpr std::chrono::seconds kHangTimeout{300};

// What is watched. Called on the watch's thread.
struct WatchedLoop {
  std::function<LoopView()> view;
  // "no batch for 12 s: reading of `a/05.png` has taken 12 s so far"
  std::function<std::string(double seconds)> input;
  // Whether the plugin waits for the devices of other processes, so that a wait for the own devices may be for those.
  bool joint = false;
};

// Looks at the loop of this process every second. Where it hangs, tells the first process, which says so on its console. Where
// it hangs too long, ends it with exit code 75; the lease of a process that ended tells the others. The thread waits for no plugin
// and no disk.
//
// Where the plugin sums over processes, one that waits for its devices may wait for a process that hangs. Whoever hangs by
// itself ends, and the others hear that it is gone. Only once all of them have waited for their devices for too long, the first
// process ends, and the others hear of that.
class HangWatch {
 public:
  // Of the first process: what is known to hold a process up; empty once it goes on.
  using Keep = std::function<void(int64_t process, const std::string& what)>;
  // Ends the process, and says why.
  using End = std::function<void(const std::string& why)>;

  // `timeout` 0: no process ends. `every` is the time between two looks; tests, which look themselves, leave it out.
  HangWatch(std::shared_ptr<group::Members> members, WatchedLoop loop, std::chrono::seconds timeout, Keep keep, End end,
            std::optional<std::chrono::milliseconds> every);
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  void look(Standstill::Clock::time_point now);

 private:
  // What a process tells of itself; no `how` where it moves.
  struct News {
    std::string how, host, what;
  };
  static std::string text_of(const News& news);
  static News parse(const std::string& text);

  std::string how(const Standstill::Seen& seen) const;
  std::string words(const Standstill::Seen& seen, const LoopView& view) const;
  void tell(const Standstill::Seen& seen, const LoopView& view);
  // Of the first process.
  bool asks_now() const;
  void listen();
  void say(int64_t process, const News& news);
  bool all_are_too_long() const;

  const std::shared_ptr<group::Members> members_;
  const WatchedLoop loop_;
  const std::chrono::seconds timeout_;
  const Keep keep_;
  const End end_;
  const std::string host_;
  Standstill standstill_;
  std::optional<std::string> told_;   // how this process is, as it told last
  std::map<int64_t, News> heard_;     // of the first process: those that hang
  bool all_said_ = false;             // likewise: that all wait for their devices
  std::unique_ptr<Periodic> thread_;  // last: it uses what is above
};

// The watch of a run: says why on the console, and ends with exit code 75.
std::unique_ptr<HangWatch> watch_for_hangs(std::shared_ptr<group::Members> members, WatchedLoop loop,
                                           std::chrono::seconds timeout, HangWatch::Keep keep);

}  // namespace tessera::train
