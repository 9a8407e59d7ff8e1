#include "train/process/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/system/process.h"
#include "base/text/text.h"
#include "config/section.h"
#include "host/processes.h"
#include "pjrt/plugin/error.h"
#include "recipe/run_identity.h"
#include "train/process/end_process.h"

namespace tessera::train {
namespace {

// Until the others have read the recipe, opened the data and found a checkpoint.
constexpr std::chrono::minutes kStartPatience{10};
// Within which the group knows that a process is gone (group::MembersOptions::patience, and etcd's own delay).
constexpr std::chrono::seconds kNewsPatience{13};
// Until the leader has written the last checkpoint.
constexpr std::chrono::hours kEndPatience{2};

// All leave a barrier within less, and the best of services takes no signature that is wrong by fifteen minutes.
constexpr std::chrono::seconds kClockMargin{60};

// Of gather() and copy_from(); those of programs count from zero.
constexpr uint32_t kLane = (1u << 24) - 1;

// A step under way can't be finished without the one that is gone, and its state is no longer whole: the process ends at once,
// on a thread that no plugin or disk holds.
void end_without(const std::string& who, Exit exit) {
  const bool goes_on = exit == Exit::kPreempted;
  log_line(fmt::format("{}: this process ends too{}", who,
                       goes_on ? ", and the run goes on from its last checkpoint when it is started again" : ""));
  end_process(exit);
}

// What the plugins of the processes tell each other.
class PluginValues final : public pjrt::KeyValues {
 public:
  explicit PluginValues(std::shared_ptr<group::Members> members) : members_(std::move(members)) {}

  void put(const std::string& key, const std::string& value) override { members_->put("plugin/" + key, value); }
  std::string get(const std::string& key, std::chrono::milliseconds patience) override {
    return members_->get("plugin/" + key, patience);
  }
  std::optional<std::string> find(const std::string& key) override { return members_->find("plugin/" + key); }

 private:
  const std::shared_ptr<group::Members> members_;
};

}  // namespace

std::string clock_note(int64_t process, std::chrono::milliseconds ahead) {
  if (std::chrono::abs(ahead) < kClockMargin) return {};
  return fmt::format(
      "the clock of process {} is {:.0f} s {} that of process 0: certificates and signed requests may be refused there",
      process, std::abs(static_cast<double>(ahead.count())) / 1000, ahead.count() > 0 ? "ahead of" : "behind");
}

std::vector<std::string> lines_that_differ(const std::string& leaders, const std::string& its) {
  const std::vector<std::string> left = split(leaders, '\n'), right = split(its, '\n');
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const std::string theirs = i < left.size() ? left[i] : "", ours = i < right.size() ? right[i] : "";
    if (theirs != ours)
      lines.push_back(fmt::format("{}   process 0: {}", recipe::shown_value(ours), recipe::shown_value(theirs)));
  }
  return lines;
}

std::vector<std::string> keys_that_differ(const std::string& leaders, const std::string& its) {
  std::vector<std::string> lines;
  for (const config::Difference& change : config::difference(leaders, its)) {
    lines.push_back(fmt::format("{} = {}   process 0: {}", change.key, recipe::shown_value(change.right),
                                recipe::shown_value(change.left)));
  }
  return lines;
}

Processes::Processes(group::Place place, std::chrono::seconds meeting, std::shared_ptr<group::Members>* kept)
    : place_(std::move(place)) {
  if (!several()) return;
  members_ = group::join_by_etcd(place_, end_without, {.meeting = meeting});
  if (kept) *kept = members_;
}

Processes::~Processes() {
  if (exchange_) host::set_exchange(nullptr);
}

std::string Processes::from_leader(const std::string& key, const std::string& value) {
  if (!several()) return value;
  if (leads()) members_->put("leader/" + key, value);
  return members_->get("leader/" + key, kStartPatience);
}

void Processes::expect_same(const std::string& what, const std::string& value, const Explain& explain) {
  if (!several()) return;
  const auto key = [&](const char* kind, int64_t process) { return fmt::format("{}/{}/{}", kind, what, process); };
  members_->put(key("host", index()), host_name());
  members_->put(key("same", index()), value);
  std::vector<std::string> different;
  const std::string leaders = members_->get(key("same", 0), kStartPatience);
  for (int64_t process = 1; process < count(); ++process) {
    const std::string its = members_->get(key("same", process), kStartPatience);
    if (its == leaders) continue;
    different.push_back(fmt::format("\n  process {} on {}", process, members_->get(key("host", process), kStartPatience)));
    for (const std::string& line : explain(leaders, its)) different.back() += "\n    " + line;
  }
  if (different.empty()) return;
  // Whoever leaves first would be missed by those who still compare.
  members_->barrier("differs/" + what, kStartPatience);
  members_->leave();
  throw usage_error(fmt::format("{} differs from that of process 0{}", what, fmt::join(different, "")), {},
                    "give every process the same program, recipe and data");
}

void Processes::compare_clocks() {
  if (!several()) return;
  using std::chrono::milliseconds;
  members_->barrier("clocks", kStartPatience);
  const auto now = std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  members_->put(fmt::format("clock/{}", index()), std::to_string(now.count()));
  if (!leads()) return;
  for (int64_t process = 1; process < count(); ++process) {
    const milliseconds its(std::stoll(members_->get(fmt::format("clock/{}", process), kStartPatience)));
    if (const std::string note = clock_note(process, its - now); !note.empty()) log_note(note);
  }
}

pjrt::ClientGroup Processes::client_group() const {
  if (!several()) return {};
  return {index(), count(), std::make_shared<PluginValues>(members_)};
}

void Processes::connect() {
  if (!several() || exchange_) return;
  exchange_ = std::make_unique<group::GlooExchange>(*members_, place_.coordinator);
  host::set_exchange(exchange_.get());
}

void Processes::copy_from(int64_t process, std::span<std::byte> bytes) {
  if (several()) exchange_->broadcast(bytes, process, kLane);
}

std::vector<std::string> Processes::gather(std::string bytes) {
  if (!several()) return {std::move(bytes)};
  TESSERA_CHECK(exchange_);
  const auto all = static_cast<size_t>(count());
  std::vector<uint64_t> sizes(all);
  const uint64_t own = bytes.size();
  exchange_->gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(sizes)), kLane);
  const uint64_t longest = std::ranges::max(sizes);
  bytes.resize(longest);
  std::string gathered(all * longest, '\0');
  exchange_->gather(std::as_bytes(std::span(bytes)), std::as_writable_bytes(std::span(gathered)), kLane);
  std::vector<std::string> out;
  for (size_t process = 0; process < all; ++process) out.push_back(gathered.substr(process * longest, sizes[process]));
  return out;
}

std::exception_ptr Processes::wait_for_news(const std::exception_ptr& failure) const {
  if (!several()) return failure;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    const bool connection = pjrt::is_of_connection(error);
    if (!connection && !exchange_) return failure;
    if (error.code() != Exit::kDevice && error.code() != Exit::kPreempted) return failure;
    std::this_thread::sleep_for(kNewsPatience);
    if (!connection && !exchange_->broken()) return failure;
    return std::make_exception_ptr(
        group::transient_error(fmt::format("the connection to another process broke: {}", error.message()), {},
                               "the run goes on from its last checkpoint when it is started again"));
  } catch (...) {
    return failure;  // no array was waited for
  }
}

bool Processes::fail(const std::exception_ptr& failure) const {
  if (!several()) return false;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.code() == Exit::kDiverged && !leads()) wait_for_leaders_failure();
    log_error_once(error.what());  // mpirun ends this process when another has heard of it
    members_->fail(error.code());
    return error.code() != Exit::kPreempted && error.code() != Exit::kInterrupted;
  } catch (const std::bad_alloc&) {
    members_->fail(Exit::kDevice);
    return true;
  } catch (...) {
    return false;  // a bug of ours: the others end with 75
  }
}

// All find alike that a run has diverged. The leader, which may be saving, records it, and would be ended by what others tell.
void Processes::wait_for_leaders_failure() const {
  try {
    members_->barrier("diverged", kStartPatience);  // to which the leader does not come
  } catch (const Error&) {
    // It has failed too, or hangs.
  }
}

void Processes::leave(const std::function<void()>& all_there) {
  if (!several()) return;
  members_->barrier("end", kEndPatience);
  if (all_there) all_there();
  members_->leave();
}

}  // namespace tessera::train
