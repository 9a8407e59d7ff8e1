#include "cluster/launch/remote_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "base/parallel.h"
#include "base/system/environment.h"
#include "base/text/text.h"
#include "cluster/group/run_key.h"
#include "cluster/launch/host_agent.h"
#include "cluster/launch/processes/signals.h"
#include "cluster/launch/processes/supervise.h"
#include "cluster/launch/returning_hosts.h"
#include "store/encoding/digest.h"

namespace tessera::launch {
namespace {

constexpr std::chrono::seconds kEtcdPatience{60};

bool divides(int64_t batch, int64_t count) { return batch % count == 0; }

// The most of `reached` hosts that the run can go on with; 0 where they are too few.
int64_t usable_count(const Request& request, int64_t hosts, int64_t reached) {
  if (!request.elastic) return reached == hosts ? hosts : 0;
  for (int64_t count = std::min(reached, request.elastic->most); count >= request.elastic->least; --count) {
    if (divides(request.batch, count)) return count;
  }
  return 0;
}

void check_batch(const Request& request, int64_t hosts) {
  if (request.elastic && request.elastic->least > hosts) {
    throw usage_error(fmt::format("the run wants {} hosts at least, and {} are named", request.elastic->least, hosts),
                      "--elastic");
  }
  if (usable_count(request, hosts, hosts) > 0 && (request.elastic || divides(request.batch, hosts))) return;
  const std::string over = request.elastic
                               ? fmt::format("{} to {} hosts", request.elastic->least, std::min(hosts, request.elastic->most))
                               : fmt::format("{} hosts", hosts);
  throw usage_error(fmt::format("the recipe's batches can't be divided over {}", over), "`data.batch`, `eval.NAME.batch`",
                    fmt::format("take a number of hosts that divides {}, or other batches", request.batch));
}

std::vector<Variable> variables_of(const Request& request, int64_t process, int64_t count, const Coordinator& coordinator,
                                   const std::string& run) {
  std::vector<Variable> all = request.environment;
  for (Variable& variable : place_variables(process, count, coordinator, run)) all.push_back(std::move(variable));
  return all;
}

// In milliseconds, for tests: how long hosts stay away at least.
constexpr const char* kReturnPause = "TESSERA_RETURN_PAUSE";

ReturnPauses return_pauses() {
  ReturnPauses pauses;
  const std::string given = environment_variable(kReturnPause);
  int64_t milliseconds = 0;
  if (std::from_chars(given.data(), given.data() + given.size(), milliseconds).ec == std::errc())
    pauses.settle = pauses.between = pauses.longest_between = std::chrono::milliseconds(milliseconds);
  return pauses;
}

// What holds for one start: a host and how it was reached.
struct Place {
  const RemoteHost* host;
  Reached reached;
};

// The lines of all hosts, with their names before them. What several say alike is shown once: a mistake in the recipe is one
// mistake.
class Console {
 public:
  void say(const std::string& host, const std::string& line) {
    {
      const std::lock_guard lock(mutex_);
      const auto [said, first] = said_.try_emplace(line, host);
      if (!first && said->second != host) return;
    }
    log_line(fmt::format("[{}] {}", host, line));
  }
  // For the next start.
  void forget() {
    const std::lock_guard lock(mutex_);
    said_.clear();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> said_;  // and who said it first
};

class RemoteRun {
 public:
  RemoteRun(const Request& request, const std::vector<RemoteHost>& hosts)
      : request_(request),
        hosts_(hosts),
        most_(usable_count(request, std::ssize(hosts), std::ssize(hosts))),
        files_(hashed(files_of_a_host(request))),
        returning_(request.directory, return_pauses()) {}

  ~RemoteRun() { abandon_copying(); }
  RemoteRun(const RemoteRun&) = delete;
  RemoteRun& operator=(const RemoteRun&) = delete;

  // Before the first start: who is not reached now has not been reached yet.
  void reach_first() {
    reach_all();
    if (problems_.empty() || (request_.elastic && count() > 0)) return;
    std::string where;
    for (const Problem& one : problems_)
      where += fmt::format("{}{}: {}", where.empty() ? "" : "\n  --> ", one.host->name, one.reached.problem);
    throw device_error(fmt::format("{} of {} hosts cannot be used", problems_.size(), hosts_.size()), where,
                       problems_[0].reached.help);
  }

  Children start(int64_t attempt) {
    abandon_copying();
    if (attempt > 0) reach_all();
    if (BlockedSignals::requested()) throw NotNow{};
    const int64_t processes = count();
    if (processes == 0) throw NotNow{too_few()};
    if (processes < static_cast<int64_t>(hosts_.size())) tell_fewer(processes);
    tell_leader();
    const std::span<const Place> places = std::span(places_).first(static_cast<size_t>(processes));
    console_.forget();
    Children children;
    std::unique_ptr<Child> etcd;
    Coordinator coordinator = request_.coordinator;
    if (coordinator.address.empty()) etcd = start_etcd(meeting_place(places), run_id(attempt), coordinator);
    for (int64_t i = 0; i < processes; ++i) children.push_back(start_process(places, i, coordinator, run_id(attempt)));
    if (etcd) children.push_back(std::move(etcd));
    processes_ = processes;
    returning_.begin(hosts_without_process(), processes, ReturningHosts::Clock::now());
    return children;
  }

  // Once hosts are back with which the run can be larger, and have the files of the launch: that they are. The run goes on
  // while these are copied.
  std::string regroup() {
    if (!copying_.valid()) {
      std::vector<const RemoteHost*> back = returning_.look(ReturningHosts::Clock::now());
      if (with(back) > processes_) copy_to(std::move(back));
      return {};
    }
    if (copying_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
    const std::vector<const RemoteHost*> back = copying_.get();
    const int64_t more = with(back);
    if (more <= processes_) return {};
    returning_.take_in();
    std::vector<std::string> names;
    for (const Problem& one : problems_) {
      if (std::ranges::find(back, one.host) != back.end()) names.push_back(one.host->name);
    }
    return fmt::format("{} {} back: the run saves and goes on with {} hosts", join(names, ", "),
                       names.size() == 1 ? "is" : "are", more);
  }

 private:
  struct Problem {
    const RemoteHost* host;
    Reached reached;
  };

  void reach_all() {
    std::vector<const RemoteHost*> all;
    for (const RemoteHost& host : hosts_) all.push_back(&host);
    std::vector<Reached> reached = reach_these(all);
    places_.clear();
    problems_.clear();
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (reached[i].problem.empty()) {
        places_.push_back({&hosts_[i], std::move(reached[i])});
      } else {
        problems_.push_back({&hosts_[i], std::move(reached[i])});
      }
    }
    // Process 0 stays where it was: a workdir on a disk of that host would not go with it.
    const auto leader = std::ranges::find(places_, leader_, &Place::host);
    if (leader != places_.end()) std::rotate(places_.begin(), leader, leader + 1);
  }

  // In that order. From any thread.
  std::vector<Reached> reach_these(const std::vector<const RemoteHost*>& hosts) const {
    std::vector<Reached> reached(hosts.size());
    const auto total = std::ssize(hosts);
    parallel_for(total, static_cast<int>(std::min<int64_t>(total, 32)), [&](int64_t index, int) {
      const auto i = static_cast<size_t>(index);
      reached[i] = reach(*hosts[i], files_, request_.directory, abandoned_);
    });
    return reached;
  }
  // Beside the run. Those that have the files then: none where the system starts no more threads or processes just now.
  void copy_to(std::vector<const RemoteHost*> hosts) {
    try {
      copying_ = std::async(std::launch::async, [this, hosts = std::move(hosts)] { return ready_of(hosts); });
    } catch (const std::system_error&) {
      // The next look tries again.
    }
  }
  std::vector<const RemoteHost*> ready_of(const std::vector<const RemoteHost*>& hosts) const {
    std::vector<const RemoteHost*> ready;
    try {
      const std::vector<Reached> reached = reach_these(hosts);
      for (size_t i = 0; i < hosts.size(); ++i) {
        if (reached[i].problem.empty()) ready.push_back(hosts[i]);
      }
    } catch (const Error&) {
      // Likewise.
    } catch (const std::system_error&) {
      // Likewise.
    }
    return ready;
  }
  void abandon_copying() {
    if (!copying_.valid()) return;
    abandoned_ = true;
    copying_.wait();
    copying_ = {};
    abandoned_ = false;
  }
  int64_t with(const std::vector<const RemoteHost*>& back) const {
    return usable_count(request_, std::ssize(hosts_), processes_ + std::ssize(back));
  }

  int64_t count() const {
    return usable_count(request_, static_cast<int64_t>(hosts_.size()), static_cast<int64_t>(places_.size()));
  }
  std::string too_few() const {
    return fmt::format("{} is not reached ({})", problems_[0].host->name, problems_[0].reached.problem);
  }
  // Of the run with that many processes, where it may become larger.
  std::vector<const RemoteHost*> hosts_without_process() const {
    std::vector<const RemoteHost*> out;
    if (processes_ == most_) return out;
    for (const Place& spare : std::span(places_).subspan(static_cast<size_t>(processes_))) out.push_back(spare.host);
    for (const Problem& one : problems_) out.push_back(one.host);
    return out;
  }
  void tell_fewer(int64_t processes) const {
    for (const Problem& one : problems_) log_warning(fmt::format("{} is left out: {}", one.host->name, one.reached.problem));
    const int64_t accumulate = accumulate_with(request_, processes, most_);
    log_line(fmt::format("the run goes on with {} of {} hosts{}", processes, hosts_.size(),
                         accumulate == request_.accumulate
                             ? ""
                             : fmt::format(" and accumulate={} instead of {}, so that no device has more rows at a time",
                                           accumulate, request_.accumulate)));
  }
  void tell_leader() {
    const RemoteHost* before = std::exchange(leader_, places_[0].host);
    if (leader_ == before) return;
    log_line(fmt::format("{} is process 0 now: its workdir must be the one that {} had", leader_->name, before->name));
  }

  // Where etcd runs: the first host, unless it was reached by an address that is its own alone.
  static const Place& meeting_place(std::span<const Place> places) {
    for (const Place& place : places) {
      if (!place.reached.address.starts_with("127.") && place.reached.address != "[::1]") return place;
    }
    return places[0];
  }

  std::unique_ptr<Child> start_etcd(const Place& place, const std::string& run, Coordinator& coordinator) const {
    std::promise<std::string> told;
    std::future<std::string> address = told.get_future();
    HostRequest request;
    request.etcd = place.reached.address;
    request.key = key_;
    request.run = run;
    const auto on_line = [told = std::make_shared<std::promise<std::string>>(std::move(told)), name = place.host->name,
                          console = &console_, done = false](const std::string& line) mutable {
      constexpr std::string_view kWord = "@etcd ";
      if (!done && line.starts_with(kWord)) {
        done = true;
        told->set_value(line.substr(kWord.size()));
      } else {
        console->say(name, line);
      }
    };
    auto etcd = std::make_unique<RemoteChild>(*place.host, place.reached, request, on_line);
    const auto until = std::chrono::steady_clock::now() + kEtcdPatience;
    while (address.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
      if (etcd->ended() && etcd->exit()) throw device_error(fmt::format("no etcd runs on {}", place.host->name));
      if (etcd->ended() || std::chrono::steady_clock::now() > until)
        throw NotNow{fmt::format("etcd on {} does not answer", place.host->name)};
    }
    coordinator = {address.get(), key_};
    return etcd;
  }

  std::unique_ptr<Child> start_process(std::span<const Place> places, int64_t index, const Coordinator& coordinator,
                                       const std::string& run) const {
    const auto& [host, reached] = places[static_cast<size_t>(index)];
    HostRequest request;
    request.directory = request_.directory;
    request.environment = variables_of(request_, index, static_cast<int64_t>(places.size()), coordinator, run);
    if (!request_.plugin.empty()) {
      request.environment.push_back(
          {"TESSERA_PLUGIN_PATH", reached.files + "/bin/" + std::filesystem::path(request_.plugin).filename().string()});
    }
    request.command = request_.command;
    std::ranges::replace(request.command, request_.recipe, recipe_on_host(request_.recipe, reached.files));
    const int64_t accumulate = accumulate_with(request_, std::ssize(places), most_);
    if (accumulate != request_.accumulate) request.command.push_back(fmt::format("accumulate={}", accumulate));
    request.lock = fmt::format("{}/../../locks/{}", reached.files, lock_name(*host));
    return std::make_unique<RemoteChild>(
        *host, reached, request,
        [name = host->name, console = &console_](const std::string& line) { console->say(name, line); });
  }

  // The same for every launch of this run.
  std::string lock_name(const RemoteHost& host) const {
    store::Sha256 sum;
    const std::string text = command_line({host.name, request_.directory, command_line(request_.command)});
    sum.add(std::as_bytes(std::span(text)));
    return store::to_hex(sum.finish()).substr(0, 32);
  }

  const Request& request_;
  const std::vector<RemoteHost>& hosts_;
  const int64_t most_;  // of the hosts, when all are reached
  const std::vector<HashedFile> files_;
  const std::string key_ = group::new_run_key();  // of the etcd of this launch
  std::vector<Place> places_;                     // those that were reached: leader_, the others in the order of the list
  std::vector<Problem> problems_;                 // the others
  const RemoteHost* leader_ = &hosts_[0];         // of the last start, or as the list has it
  int64_t processes_ = 0;                         // of the start that runs: on the first of places_
  ReturningHosts returning_;
  mutable Console console_;
  std::atomic<bool> abandoned_ = false;                  // what is copied beside the run
  std::future<std::vector<const RemoteHost*>> copying_;  // to hosts that are back
};

}  // namespace

Plan plan_remote_run(const Request& request, const std::vector<RemoteHost>& hosts) {
  const auto count = static_cast<int64_t>(hosts.size());
  check_batch(request, count);
  const int64_t processes = usable_count(request, count, count);
  Plan plan;
  Coordinator coordinator = shown(request.coordinator);
  if (coordinator.address.empty()) {
    coordinator = {fmt::format("{}:{}", hosts[0].name, kPort), kKey};
    plan.notes.push_back(fmt::format("an etcd on {}, started for this launch, with a key of its own", hosts[0].name));
  }
  if (request.elastic) {
    plan.notes.push_back(fmt::format("{} to {} hosts, as many as are reached and divide {}, for the batches",
                                     request.elastic->least, request.elastic->most, request.batch));
    if (request.elastic->least < processes) {
      plan.notes.push_back(
          request.batch_norm
              ? fmt::format("with fewer than {}, accumulate stays {}, since the model has batch norm", processes,
                            request.accumulate)
              : fmt::format("with fewer than {}, accumulate grows, so that no device has more rows at a time", processes));
    }
  }
  plan.notes.emplace_back("each host gets what it has not yet of these files, in ~/.cache/tessera/launch:");
  plan.files = files_of_a_host(request);
  for (int64_t i = 0; i < processes; ++i) {
    ProcessPlan& one = plan.processes.emplace_back();
    const RemoteHost& host = hosts[static_cast<size_t>(i)];
    one.host = fmt::format("{}: process {} of {}", host.name, i, processes);
    one.environment = variables_of(request, i, processes, coordinator, kRun);
    one.command = {"tessera"};
    one.command.insert(one.command.end(), request.command.begin(), request.command.end());
    one.shell = host.shell;
    one.directory = request.directory;
  }
  return plan;
}

int64_t accumulate_with(const Request& request, int64_t processes, int64_t most) {
  if (processes >= most || request.batch_norm) return request.accumulate;
  // Divides whatever both numbers of processes divide.
  const int64_t sure = request.accumulate * std::lcm(processes, most) / processes;
  if (request.rows == 0) return sure;
  const int64_t least = (request.accumulate * most + processes - 1) / processes;
  for (int64_t accumulate = least; accumulate < sure; ++accumulate) {
    if (divides(request.rows, accumulate * processes)) return accumulate;
  }
  return sure;
}

Exit run_on_hosts(const Request& request, const std::vector<RemoteHost>& hosts) {
  const auto count = static_cast<int64_t>(hosts.size());
  check_batch(request, count);
  RemoteRun run(request, hosts);
  run.reach_first();
  return supervise([&](int64_t attempt) { return run.start(attempt); }, request.restarts, "the hosts", kSteadyRun,
                   [&] { return run.regroup(); });
}

}  // namespace tessera::launch
