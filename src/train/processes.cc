#include "train/processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "host/processes.h"

namespace tessera::train {
namespace {

// Until the others have read the recipe, opened the data and found a checkpoint.
constexpr std::chrono::minutes kStartPatience{10};
// Within which the group knows that a process is gone (group::MembersOptions::patience, and etcd's own delay).
constexpr std::chrono::seconds kNewsPatience{13};
// Until the leader has written the last checkpoint.
constexpr std::chrono::hours kEndPatience{2};

// Of gather() and copy_from_leader(); those of programs count from zero.
constexpr uint32_t kLane = (1u << 24) - 1;

// A step under way can't be finished without the one that is gone, and its state is no longer whole: the process ends at once,
// on a thread that no plugin or disk holds.
void end_without(const std::string& who) {
  log_line(
      fmt::format("{}: this process ends too, and the run goes on from its last checkpoint when it is started again", who));
  ::_exit(static_cast<int>(Exit::kPreempted));
}

}  // namespace

Processes::Processes(group::Place place) : place_(std::move(place)) {
  if (!several()) return;
  members_ = group::join_by_etcd(place_, end_without);
}

Processes::~Processes() {
  if (exchange_) host::set_exchange(nullptr);
}

std::string Processes::from_leader(const std::string& key, const std::string& value) {
  if (!several()) return value;
  if (leads()) members_->put("leader/" + key, value);
  return members_->get("leader/" + key, kStartPatience);
}

void Processes::expect_same(const std::string& what, const std::string& value) {
  if (!several()) return;
  members_->put(fmt::format("same/{}/{}", what, index()), value);
  std::vector<std::string> different;
  const std::string leaders = members_->get(fmt::format("same/{}/0", what), kStartPatience);
  for (int64_t process = 1; process < count(); ++process) {
    if (members_->get(fmt::format("same/{}/{}", what, process), kStartPatience) != leaders)
      different.push_back(std::to_string(process));
  }
  if (different.empty()) return;
  // Whoever leaves first would be missed by those who still compare.
  members_->barrier("differs/" + what, kStartPatience);
  members_->leave();
  throw usage_error(fmt::format("{} of process{} {} differ{} from the leader's", what, different.size() == 1 ? "" : "es",
                                fmt::join(different, ", "), different.size() == 1 ? "s" : ""),
                    {}, "give every process the same program, recipe and data");
}

void Processes::connect() {
  if (!several()) return;
  exchange_ = std::make_unique<group::GlooExchange>(*members_, place_.coordinator);
  host::set_exchange(exchange_.get());
}

void Processes::copy_from_leader(std::span<std::byte> bytes) {
  if (several()) exchange_->broadcast(bytes, kLane);
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

void Processes::wait_for_news(const std::exception_ptr& failure) const {
  if (!exchange_) return;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.code() == Exit::kDevice) std::this_thread::sleep_for(kNewsPatience);
  } catch (...) {
    // No array was waited for.
  }
}

void Processes::leave() {
  if (!several()) return;
  members_->barrier("end", kEndPatience);
  members_->leave();
}

}  // namespace tessera::train
