// Members over etcd's JSON gateway (etcd_answers.h).

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/system/background_thread.h"
#include "base/system/process.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "cluster/group/addresses.h"
#include "cluster/group/etcd_answers.h"
#include "cluster/group/members.h"
#include "http/client.h"

namespace tessera::group {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{5}, kLongestPause{200}, kCallPatience{5000};

constexpr const char* kHelp =
    "is etcd running there, and open to this host? `curl http://HOST:PORT/health` asks it; where it asks for a key, name the "
    "run's with --coordinator-key";
constexpr const char* kHelpWithKey =
    "is etcd running there, open to this host, and with the certificate of this key (--coordinator-key)?";

std::string root_of(const std::string& run) { return fmt::format("tessera/{}/", run); }

std::string member_key(const std::string& run, int64_t process) {
  return fmt::format("{}members/{:08}", root_of(run), process);
}
// The first process that failed for good: "2 5" is process 2 with exit code 5. Those that fail because of it don't count.
std::string failure_key(const std::string& run) { return root_of(run) + "failed"; }
bool is_for_good(Exit code) { return code != Exit::kPreempted && code != Exit::kInterrupted; }

// One etcd of one or more members. Any member can answer; if one does not, the next is asked. Answers that are not etcd's are
// ConnectionErrors too.
class Etcd {
 public:
  explicit Etcd(std::vector<http::Endpoint> members) : members_(std::move(members)) {}

  // `patience` is of one request.
  json call(const std::string& path, const json& body, milliseconds patience = kCallPatience) const {
    return of_any(patience, [&](const http::Endpoint& at) {
      const http::Answer answer = http::post_json(at, path, body.dump(), patience);
      JsonResult read = read_json(answer.body);
      if (answer.status != 200 || !read.problem.empty()) {
        throw http::ConnectionError(
            fmt::format("{} answered {} with status {}: {}", at.text(), path, answer.status, answer.body.substr(0, 200)));
      }
      return std::move(read.value);
    });
  }
  struct Stream {
    std::shared_ptr<http::LineStream> lines;
    size_t member = 0;  // whose it is
  };
  Stream stream(const std::string& path, const json& body) const {
    return of_any(kCallPatience, [&](const http::Endpoint& at) {
      return Stream{std::make_shared<http::LineStream>(at, path, body.dump(), kCallPatience),
                    static_cast<size_t>(&at - members_.data())};
    });
  }
  std::string grant(std::chrono::seconds life) const {
    return expect(etcd_lease(call("/v3/lease/grant", {{"TTL", std::to_string(life.count())}})), "a lease");
  }
  void put(const std::string& key, const std::string& value, const std::string& lease) const {
    call("/v3/kv/put", {{"key", base64(key)}, {"value", base64(value)}, {"lease", lease}});
  }
  // False where another has put the key there. One who asks again after an answer that was lost may find it to be its own.
  bool create(const std::string& key, const std::string& value, const std::string& lease) const {
    const json absent = {{"key", base64(key)}, {"target", "CREATE"}, {"result", "EQUAL"}, {"create_revision", "0"}};
    const json put = {{"request_put", {{"key", base64(key)}, {"value", base64(value)}, {"lease", lease}}}};
    if (etcd_succeeded(call("/v3/kv/txn", {{"compare", json::array({absent})}, {"success", json::array({put})}}))) return true;
    const std::vector<KeyValue> found = range(key, {});
    return !found.empty() && found[0].lease == lease;
  }
  std::optional<std::string> get(const std::string& key) const {
    std::vector<KeyValue> found = range(key, {});
    return found.empty() ? std::nullopt : std::optional(std::move(found[0].value));
  }
  // All whose keys begin so, in the order of the keys.
  std::vector<KeyValue> with_prefix(const std::string& prefix) const { return range(prefix, after(prefix)); }
  // The number of the last change.
  int64_t revision() const { return expect(etcd_revision(call("/v3/kv/range", {{"key", base64("\1")}})), "a revision"); }
  void keep_alive(const std::string& lease, milliseconds patience) const {
    const json answer = call("/v3/lease/keepalive", {{"ID", lease}}, patience);
    if (!etcd_lease_lives(answer)) throw http::ConnectionError(fmt::format("{}: the lease has run out", name_in_use()));
  }
  void revoke(const std::string& lease) const { call("/v3/lease/revoke", {{"ID", lease}}, std::chrono::seconds(1)); }

  // The first key that does not begin so: etcd's range_end.
  static std::string after(std::string prefix) {
    ++prefix.back();  // prefixes end with '/'
    return prefix;
  }
  // Of the member that answers now.
  size_t in_use() const { return in_use_; }
  size_t member_count() const { return members_.size(); }

 private:
  // Asks one member after the other, from the one that answered last. While they elect a leader, which takes a second or two,
  // all of them refuse: then they are asked again, until `patience` is over. An etcd of one member is asked once. NotThere where
  // one of them is not: until most have come, those that are there take connections and answer nothing.
  template <class Ask>
  std::invoke_result_t<Ask, const http::Endpoint&> of_any(milliseconds patience, Ask&& ask) const {
    const auto end = Clock::now() + patience;
    while (true) {
      const size_t first = in_use_;
      std::vector<std::string> problems;
      size_t there = 0;
      for (size_t i = 0; i < members_.size(); ++i) {
        const size_t member = (first + i) % members_.size();
        try {
          auto answer = ask(members_[member]);
          if (i > 0) in_use_ = member;
          return answer;
        } catch (const http::NotThere& error) {
          problems.emplace_back(error.what());
        } catch (const http::ConnectionError& error) {
          problems.emplace_back(error.what());
          ++there;
        }
      }
      const std::string text = fmt::format("{}", fmt::join(problems, "; "));
      if (there == 0) throw http::NotThere(text);
      if (members_.size() == 1 || Clock::now() >= end) {
        if (there < members_.size()) throw http::NotThere(text);
        throw http::ConnectionError(text);
      }
      std::this_thread::sleep_for(kLongestPause);
    }
  }
  std::string name_in_use() const { return members_[in_use_].text(); }
  template <class Value>
  Value expect(std::optional<Value> found, const char* what) const {
    if (!found) throw http::ConnectionError(fmt::format("{} answers without {}: is it etcd?", name_in_use(), what));
    return std::move(*found);
  }
  std::vector<KeyValue> range(const std::string& key, const std::string& end) const {
    json question = {{"key", base64(key)}};
    if (!end.empty()) question["range_end"] = base64(end);
    return expect(etcd_pairs(call("/v3/kv/range", question)), "keys and values");
  }

  const std::vector<http::Endpoint> members_;
  mutable std::atomic<size_t> in_use_ = 0;
};

// What is said at the end, as far as a coordinator is there to hear it.
template <class Fn>
void if_reached(Fn&& fn) noexcept {
  try {
    fn();
  } catch (const InternalError&) {
    std::terminate();
  } catch (...) {
    // None is there.
  }
}

void put_failure(const Etcd& etcd, const Place& place, Exit code, const std::string& lease) {
  etcd.create(failure_key(place.run), fmt::format("{} {}", place.process_id, static_cast<int>(code)), lease);
}

class EtcdMembers final : public Members {
 public:
  EtcdMembers(Place place, std::vector<http::Endpoint> etcd, Lost lost, const MembersOptions& options)
      : Members(std::move(place)),
        options_(options),
        etcd_(std::move(etcd)),
        root_(root_of(place_.run)),
        lost_(std::move(lost)) {
    try {
      lease_ = first_lease();
      kept_ = etcd_.grant(options.kept);
      enter();
      const int64_t revision = etcd_.revision();
      keeper_ = std::thread([this] { keep_alive(); });
      watcher_ = std::thread([this, revision] { watch(revision); });
      wait_for_all(
          root_ + "met/", options.meeting, [](const std::string& absent) { return fmt::format("{} did not come", absent); },
          [&](const std::string& absent) {
            log_note(fmt::format("waits for {}, {} s at most (--meet-timeout)", absent, options.meeting.count()));
          });
    } catch (const http::NotThere& error) {
      stop();
      throw unreachable(error, Exit::kPreempted);
    } catch (const http::ConnectionError& error) {
      stop();
      throw unreachable(error, lease_.empty() ? Exit::kDevice : Exit::kPreempted);
    } catch (...) {
      stop();
      throw;
    }
  }
  // Without leave(): the others need not wait until the lease has run out.
  ~EtcdMembers() override {
    if (!leaving_.exchange(true)) revoke();
    stop();
  }

  void put(const std::string& key, const std::string& value) override {
    guarded([&] { etcd_.put(root_ + "values/" + key, value, kept_); });
  }

  std::string get(const std::string& key, milliseconds patience) override {
    std::optional<std::string> value;
    guarded([&] { poll(patience, [&] { return (value = etcd_.get(root_ + "values/" + key)).has_value(); }); });
    if (!value) throw transient_error(fmt::format("no process has told its `{}`", key));
    return *value;
  }

  std::optional<std::string> find(const std::string& key) override {
    std::optional<std::string> value;
    guarded([&] { value = etcd_.get(root_ + "values/" + key); });
    return value;
  }

  std::map<std::string, std::string> find_all(const std::string& folder) override {
    const std::string values = root_ + "values/";
    std::map<std::string, std::string> found;
    guarded([&] {
      for (KeyValue& one : etcd_.with_prefix(values + folder)) found[one.key.substr(values.size())] = std::move(one.value);
    });
    return found;
  }

  void barrier(const std::string& name, milliseconds patience) override {
    guarded([&] {
      wait_for_all(root_ + "barriers/" + name + "/", patience,
                   [&](const std::string& absent) { return fmt::format("{} did not come to the barrier `{}`", absent, name); });
    });
  }

  void leave() override {
    leaving_ = true;
    try {
      etcd_.put(left_key(place_.process_id), "", kept_);
    } catch (const http::ConnectionError&) {
      // The coordinator may have ended first.
    }
    revoke();
    stop();
  }

  void fail(Exit code) noexcept override {
    if (!is_for_good(code) || failed_.exchange(true)) return;
    leaving_ = true;
    if_reached([&] { put_failure(etcd_, place_, code, kept_); });
    revoke();  // after that: who hears that it is gone finds why
  }

 private:
  template <class Fn>
  void guarded(Fn&& fn) const {
    try {
      fn();
    } catch (const http::ConnectionError& error) {
      throw unreachable(error, Exit::kPreempted);
    }
  }
  Error unreachable(const http::ConnectionError& error, Exit code) const {
    return {code, fmt::format("the coordinator: {}", error.what()), "--coordinator-address",
            place_.key.empty() ? kHelp : kHelpWithKey};
  }

  void revoke() const noexcept {
    if_reached([&] { etcd_.revoke(lease_); });  // else it runs out
  }

  std::string left_key(int64_t process) const { return fmt::format("{}left/{:08}", root_, process); }

  // Waits for an etcd that comes up later than this process, as one that a scheduler starts beside it may. While it starts it ends
  // connections that it has taken; so it does for good with those who have another key.
  std::string first_lease() const {
    constexpr std::chrono::seconds kQuiet{2}, kStarting{2};
    const auto start = Clock::now();
    std::optional<Clock::time_point> reached;
    bool said = false;
    std::string lease;
    const bool granted = poll(options_.meeting, [&] {
      try {
        lease = etcd_.grant(options_.patience);
        return true;
      } catch (const http::NotThere& error) {
        if (!said && Clock::now() >= start + kQuiet) {
          said = true;
          log_note(fmt::format("waits {} s for the coordinator: {}", options_.meeting.count(), error.what()));
        }
      } catch (const http::ConnectionError&) {
        if (!reached) reached = Clock::now();
        if (Clock::now() >= *reached + kStarting) throw;
      }
      return false;
    });
    return granted ? lease : etcd_.grant(options_.patience);  // which says why not
  }

  // A process that was killed leaves its key behind until its lease has run out.
  void enter() {
    const std::string me = describe();
    if (poll(options_.patience + std::chrono::seconds(2),
             [&] { return etcd_.create(member_key(place_.run, place_.process_id), me, lease_); }))
      return;
    const std::string other = etcd_.get(member_key(place_.run, place_.process_id)).value_or("another");
    throw usage_error(fmt::format("process {} of run `{}` is there already: {}", place_.process_id, place_.run, other),
                      "--process-id", "give each process an id of its own, and each run a --run-id");
  }
  static std::string describe() { return fmt::format("process {} on {}", ::getpid(), host_name()); }

  // Calls `done` until it says true, less and less often; false after `patience`.
  template <class Fn>
  static bool poll(milliseconds patience, Fn&& done) {
    const auto end = Clock::now() + patience;
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      if (done()) return true;
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(pause);
    }
  }

  // Calls `tell` once with those who are absent, when the wait takes long.
  template <class Message>
  void wait_for_all(const std::string& prefix, milliseconds patience, Message&& message,
                    const std::function<void(const std::string& absent)>& tell = {}) {
    constexpr std::chrono::seconds kQuiet{10};
    etcd_.put(fmt::format("{}{:08}", prefix, place_.process_id), "", kept_);
    const auto start = Clock::now();
    bool told = !tell;
    std::vector<KeyValue> there;
    const bool all = poll(patience, [&] {
      try {
        there = etcd_.with_prefix(prefix);
      } catch (const http::ConnectionError&) {
        // One request of many may fail. Where that lasts, the thread that keeps the lease alive says so.
        if (Clock::now() >= start + patience) throw;
        return false;
      }
      if (static_cast<int64_t>(there.size()) >= place_.num_processes) return true;
      if (const auto failed = failure()) {
        throw Error(failed->exit, failed->what, {}, "mend that, and start all of them again under another --run-id");
      }
      if (!told && Clock::now() >= start + kQuiet) {
        told = true;
        tell(absent(prefix, there));
      }
      return false;
    });
    if (all) return;
    throw transient_error(message(absent(prefix, there)) + fmt::format(" within {} seconds", patience.count() / 1000), {},
                          "look at their logs; start the run again when they can be there");
  }
  // "processes 1, 3 of 4"
  std::string absent(const std::string& prefix, const std::vector<KeyValue>& there) const {
    std::vector<std::string> missing;
    size_t next = 0;
    for (int64_t process = 0; process < place_.num_processes; ++process) {
      const std::string key = fmt::format("{}{:08}", prefix, process);
      if (next < there.size() && there[next].key == key) {
        ++next;
      } else {
        missing.push_back(std::to_string(process));
      }
    }
    return fmt::format("process{} {} of {}", missing.size() == 1 ? "" : "es", fmt::join(missing, ", "), place_.num_processes);
  }

  // ---- threads ----

  // Waits; false when the group ends meanwhile.
  bool pause(milliseconds time) {
    std::unique_lock lock(mutex_);
    return !stopping_.wait_for(lock, time, [&] { return stopped_; });
  }

  // A third of the lease, so that one request may fail, or one member be silent and the next one asked.
  void keep_alive() {
    become_background_thread("lease", "group of processes");
    const milliseconds every = milliseconds(options_.patience) / 3;
    // Of one member; half as much again is of all of them, so that two rounds without an answer are over within 15 s.
    const auto members = static_cast<int64_t>(etcd_.member_count());
    const milliseconds patience = members > 1 ? std::min(every / 2, every * 3 / 2 / members) : every;
    auto last = Clock::now();
    milliseconds until_next = every;
    while (pause(until_next)) {
      try {
        etcd_.keep_alive(lease_, patience);
        etcd_.keep_alive(kept_, patience);
        last = Clock::now();
        until_next = every;
        watch_who_answers();
      } catch (const http::ConnectionError& error) {
        if (Clock::now() - last >= options_.patience)
          return lose(fmt::format("the coordinator is gone ({})", error.what()), Exit::kPreempted);
        until_next = std::min(every, kLongestPause);
      }
    }
  }
  // A member that is cut off ends no stream: that it is silent looks like no news.
  void watch_who_answers() {
    const std::lock_guard lock(mutex_);
    if (stream_.lines && stream_.member != etcd_.in_use()) stream_.lines->close();
  }

  // The keys of processes that go.
  void watch(int64_t revision) {
    become_background_thread("group's news", "group of processes");
    int64_t from = revision + 1;
    do {
      try {
        const auto stream = etcd_.stream("/v3/watch", watch_question(from));
        {
          const std::lock_guard lock(mutex_);
          if (stopped_) return;
          stream_ = stream;
        }
        while (const auto line = stream.lines->next()) {
          const WatchNews news = etcd_news(*line);
          for (const std::string& key : news.deleted) {
            if (const auto process = process_of_key(key)) miss(*process);
          }
          if (!news.over) continue;
          // The watch is over and the stream goes on, without a word. It asked for what etcd keeps no longer.
          if (news.oldest > 0) {
            look_for_all();
            from = news.oldest;
          }
          break;
        }
      } catch (const http::ConnectionError&) {
        // If it lasts, the thread that keeps the lease alive says so.
      }
    } while (pause(std::chrono::seconds(1)));
  }
  json watch_question(int64_t from) const {
    const std::string prefix = root_ + "members/";
    return {{"create_request",
             {{"key", base64(prefix)},
              {"range_end", base64(Etcd::after(prefix))},
              {"start_revision", std::to_string(from)},
              {"filters", json::array({"NOPUT"})}}}};
  }
  // Who has met the others and has no key any more is gone.
  void look_for_all() {
    const std::vector<KeyValue> met = etcd_.with_prefix(root_ + "met/"), here = etcd_.with_prefix(root_ + "members/");
    for (const KeyValue& one : met) {
      const std::optional<int64_t> process = process_of_key(one.key);
      if (!process) continue;
      const auto is_own = [&](const KeyValue& other) { return process_of_key(other.key) == process; };
      if (std::ranges::none_of(here, is_own)) miss(*process);
    }
  }
  void miss(int64_t process) {
    if (left(left_key(process))) return;
    if (const auto failed = failure()) {
      lose(failed->what, failed->exit);
    } else {
      lose(fmt::format("process {} is gone", process), Exit::kPreempted);
    }
  }
  bool left(const std::string& key) const {
    try {
      return etcd_.get(key).has_value();
    } catch (const http::ConnectionError&) {
      return false;
    }
  }
  void lose(const std::string& who, Exit exit) {
    if (leaving_ || told_.exchange(true)) return;
    lost_(who, exit);
  }

  struct Failure {
    std::string what;
    Exit exit;
  };
  // Of a process that failed for good; nothing where none is known.
  std::optional<Failure> failure() const {
    try {
      const auto text = etcd_.get(failure_key(place_.run));
      if (!text) return std::nullopt;
      int64_t process = 0;
      int code = 0;
      if (!(std::istringstream(*text) >> process >> code)) return std::nullopt;
      return Failure{fmt::format("process {} failed with exit code {}; its log says why", process, code),
                     static_cast<Exit>(code)};
    } catch (const http::ConnectionError&) {
      return std::nullopt;
    }
  }

  void stop() {
    leaving_ = true;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      if (stream_.lines) stream_.lines->close();
    }
    stopping_.notify_all();
    if (keeper_.joinable()) keeper_.join();
    if (watcher_.joinable()) watcher_.join();
  }

  const MembersOptions options_;
  const Etcd etcd_;
  const std::string root_;
  const Lost lost_;
  std::string lease_, kept_;
  std::atomic<bool> leaving_ = false, told_ = false, failed_ = false;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  Etcd::Stream stream_;
  std::thread keeper_, watcher_;
};

}  // namespace

// Of a process that met no other. Who comes later starts the run again, perhaps under the same name.
constexpr std::chrono::seconds kToldEarly{60};

void tell_failure(const Place& place, Exit code) noexcept {
  if (!place.several() || !is_for_good(code)) return;
  if_reached([&] {
    auto members = parse_coordinator(place.coordinator, place.key);
    if (members.empty()) return;
    const Etcd etcd(std::move(members));
    // A second process with the same id must not mark the run of the first as failed.
    if (etcd.get(member_key(place.run, place.process_id))) return;
    put_failure(etcd, place, code, etcd.grant(kToldEarly));
  });
}

std::unique_ptr<Members> join_by_etcd(const Place& place, Lost lost, const MembersOptions& options) {
  auto members = parse_coordinator(place.coordinator, place.key);
  if (members.empty()) {
    throw usage_error(fmt::format("`{}` is no address of a coordinator", place.coordinator), "--coordinator-address",
                      "give it as HOST:PORT; the members of one etcd as HOST:PORT,HOST:PORT,HOST:PORT");
  }
  return std::make_unique<EtcdMembers>(place, std::move(members), std::move(lost), options);
}

bool has_members(const std::string& coordinator, const std::string& key, const std::string& run) {
  auto members = parse_coordinator(coordinator, key);
  try {
    return !members.empty() && !Etcd(std::move(members)).with_prefix(root_of(run) + "members/").empty();
  } catch (const http::ConnectionError&) {
    return false;
  }
}

}  // namespace tessera::group
