#pragma once
// The processes of a run as a group: what they tell each other before a step, where they wait for each other, and the news that
// one of them is gone. Arrays travel by other ways (cluster/group/exchange.h, or the plugin's own).

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "cluster/group/place.h"

namespace tessera::group {

// Of a process that ended or is not heard of, or of the coordinator. Called once, from a thread of the group. `exit` is the
// exit code for this process: that of the one that failed for good (Members::fail()), else 75.
using Lost = std::function<void(const std::string& who, Exit exit)>;

// How long processes wait for each other at the start. Hosts come late: one fetches an image. Twice
// this (for the coordinator, and for the others) is less than launchers take for a run that went well
// (cluster/launch/processes/supervise.h, cluster/launch/slurm.cc), so that they don't start for ever what never comes.
inline constexpr std::chrono::seconds kMeetTimeout{600};

struct MembersOptions {
  // Without a sign of life for so long a process is gone: killed, stopped, or cut off.
  std::chrono::seconds patience{10};
  // How long the coordinator may take to come, and then the others, when the group is made.
  std::chrono::seconds meeting = kMeetTimeout;
  // How long what a process has put stays after its end.
  std::chrono::seconds kept = std::chrono::hours(24);
};

// Of what another start of the run may mend: a process, the coordinator or a connection that is lost. Exit code 75.
inline Error transient_error(std::string what, std::string where = {}, std::string help = {}) {
  return Error(Exit::kPreempted, std::move(what), std::move(where), std::move(help));
}

// All functions may be called from any thread. They throw a transient_error() where the coordinator can't be reached.
class Members {
 public:
  virtual ~Members() = default;

  int64_t process_id() const { return place_.process_id; }
  int64_t count() const { return place_.num_processes; }
  bool leads() const { return place_.leads(); }

  // What is put under a key stays. Keys and values are bytes.
  virtual void put(const std::string& key, const std::string& value) = 0;
  // Waits until somebody has put it. A transient_error() after `patience`.
  virtual std::string get(const std::string& key, std::chrono::milliseconds patience) = 0;
  // Nothing where nobody has put it.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  // All values whose keys begin with `folder`, which ends with '/', by their keys: one request, of however many.
  virtual std::map<std::string, std::string> find_all(const std::string& folder) = 0;
  // Returns when all are in the barrier of that name, which is used once. A transient_error() after `patience` names those who
  // are not.
  virtual void barrier(const std::string& name, std::chrono::milliseconds patience) = 0;
  // An orderly end, which is no loss to the others. Nothing but fail() may be called after it.
  virtual void leave() = 0;
  // Before this process ends with a failure. Where another start would end so too (every code but 75 and Ctrl-C's), the others
  // end with the same code, and this one hears of no loss any more. Throws nothing: without a coordinator they end with 75.
  virtual void fail(Exit code) noexcept = 0;

 protected:
  explicit Members(Place place) : place_(std::move(place)) {}
  const Place place_;
};

// Meets the others at an etcd (3.4 or newer, through its JSON gateway), in TLS where the place has a key, and returns once all
// are there. Where the place names several members of the etcd, the next one is asked what one does not answer. The lease of each
// process tells of its death. Throws a transient_error() that names those who don't come or says that no coordinator is there, an
// Error with the code of one that failed for good (tell_failure()), a device Error where it takes no connection from this one (the
// key), and a usage Error where another process has this one's id.
std::unique_ptr<Members> join_by_etcd(const Place& place, Lost lost, const MembersOptions& options = {});

// As Members::fail(), of a process that has not met the others: told to those who come within a minute. Alone it does nothing.
void tell_failure(const Place& place, Exit code) noexcept;

// Whether a process of that run is a member now. False where the coordinator can't be reached.
bool has_members(const std::string& coordinator, const std::string& key, const std::string& run);

}  // namespace tessera::group
