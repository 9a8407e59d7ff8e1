#pragma once
// What the processes of a run tell the leader of themselves while they train (monitor/process_figures.h): through the
// coordinator, and on a thread of its own. Nothing waits for it. A coordinator that does not answer is tried again the next time;
// whether the run ends with it is for the group to say.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cluster/group/members.h"
#include "monitor/process_figures.h"

namespace tessera::train {

// Between two figures of a process. etcd keeps what was put until it is compacted, which nobody may do: about 420 bytes for a
// value of 250, and together the processes put one in two seconds at most, 20 MB a day.
std::chrono::milliseconds figure_interval(int64_t processes);

class FigureExchange {
 public:
  using Own = std::function<monitor::ProcessFigures()>;
  using Keep = std::function<void(const monitor::HostFigures&)>;

  // `own` says what this process tells, all but its number and host. `keep` is the leader's, for what it heard. Both are called
  // on the thread of this object and in the two calls below, never at once; what they throw is passed over.
  // `every`: figure_interval() where there is nothing.
  FigureExchange(std::shared_ptr<group::Members> members, Own own, Keep keep,
                 std::optional<std::chrono::milliseconds> every = {});
  ~FigureExchange();
  FigureExchange(const FigureExchange&) = delete;
  FigureExchange& operator=(const FigureExchange&) = delete;

  // The end, to which no process came that hangs: tells the last figures of this process. Then, once all have done so, the leader
  // takes them.
  void tell_last();
  void collect_last();

  // Of the leader: what holds a process up (HangWatch); empty where it goes on. From any thread; is kept soon.
  void set_hang(int64_t process, const std::string& what);
  // Of the leader: who is the slowest, where something was heard since the last call. From any thread; does not wait.
  std::optional<monitor::SlowestProcess> news();

 private:
  void work();
  bool ending() const;
  void stop();
  void tell();
  void collect(bool to_the_end);

  const std::shared_ptr<group::Members> members_;
  const Own own_;
  const Keep keep_;
  const std::chrono::milliseconds every_;
  const std::string host_;
  int64_t count_ = 0;                     // of figures of this process
  std::map<int64_t, std::string> texts_;  // of the leader: what each process told last
  std::map<int64_t, monitor::ProcessFigures> known_;

  mutable std::mutex mutex_;  // over the rest
  std::condition_variable changed_;
  bool ending_ = false;
  bool soon_ = false;  // figures are told and taken now
  std::map<int64_t, std::string> hangs_;
  std::optional<monitor::SlowestProcess> news_;
  std::thread thread_;
};

}  // namespace tessera::train
