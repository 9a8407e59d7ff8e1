#pragma once
// This process among those that train one run together.
//
// The leader, process 0, is the one that reports and saves; the others keep nothing of the run but their log, and get the state
// of a checkpoint from it, so that they need not see its disk. Decisions follow from what all know alike: the step, the
// measurements, the votes of a step. When one is gone, the others end with exit code 75, and the run goes on from its last
// checkpoint when all are started again. When one fails for good, the others end with its exit code.

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/group/exchange.h"
#include "cluster/group/members.h"
#include "cluster/group/place.h"
#include "pjrt/client.h"

namespace tessera::train {

// What to say of a process whose clock is so far ahead of that of process 0; empty where it may be right.
std::string clock_note(int64_t process, std::chrono::milliseconds ahead);

// How a process's value differs from the leader's, a line each.
using Explain = std::function<std::vector<std::string>(const std::string& leaders, const std::string& its)>;
// For values of several lines.
std::vector<std::string> lines_that_differ(const std::string& leaders, const std::string& its);
// For recipes: the keys.
std::vector<std::string> keys_that_differ(const std::string& leaders, const std::string& its);

class Processes {
 public:
  // Meets the others where there are several, and waits `meeting` for them; alone all of the below is immediate. `kept` keeps
  // this process a member beyond this object's life; null: nobody does.
  explicit Processes(group::Place place, std::chrono::seconds meeting = group::kMeetTimeout,
                     std::shared_ptr<group::Members>* kept = nullptr);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int64_t count() const { return place_.num_processes; }
  int64_t index() const { return place_.process_id; }
  bool several() const { return place_.several(); }
  bool leads() const { return place_.leads(); }

  // What the leader says, to all of them. Each key is used once.
  std::string from_leader(const std::string& key, const std::string& value);
  // Throws a usage Error in all of them where `value` is not the same in all. It names the processes that differ from the leader,
  // and what `explain` says of each.
  void expect_same(const std::string& what, const std::string& value, const Explain& explain = lines_that_differ);
  // A note of the leader's where the clock of another machine is wrong by more than the time in which they can be compared.
  void compare_clocks();
  // For a client over all of them, of a plugin that has collectives between processes. What it tells the others is kept apart.
  pjrt::ClientGroup client_group() const;
  // Connects them, once, for gather() and for programs that sum over processes (host/processes.h).
  void connect();
  // What one of them has in `bytes`, into those of all. After connect(), as gather().
  void copy_from(int64_t process, std::span<std::byte> bytes);
  void copy_from_leader(std::span<std::byte> bytes) { copy_from(0, bytes); }
  // Seconds so far in which this process waited for others in gather() and in programs that sum over processes
  // (cluster/group/exchange.h); a plugin that sums by itself tells none. 0 before connect().
  double waited_for_others() const { return exchange_ ? exchange_->waited_for_others() : 0; }
  // The bytes that each of them gives, in the order of the processes; all come to it, and in the same order to each of several.
  std::vector<std::string> gather(std::string bytes);
  // After a failure of the device: where another process is gone, and that was the cause, this one ends with exit code 75
  // meanwhile. Else gives the failure as it is to be told: one with that code where a connection to another process broke.
  std::exception_ptr wait_for_news(const std::exception_ptr& failure) const;
  // Tells the others of a failure that ends this process: they end with the same exit code where another start would end so
  // too, and this one is not ended any more because another one is. Whether they were told so.
  bool fail(const std::exception_ptr& failure) const;
  // For what goes on beside the training (train/process/figure_exchange.h), until leave(). Null where this process is alone.
  std::shared_ptr<group::Members> members() const { return members_; }
  // The end, once all have come to it; `all_there` is called then.
  void leave(const std::function<void()>& all_there = {});

 private:
  void wait_for_leaders_failure() const;

  const group::Place place_;
  std::shared_ptr<group::Members> members_;
  std::unique_ptr<group::GlooExchange> exchange_;
};

}  // namespace tessera::train
