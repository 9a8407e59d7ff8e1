#include "checkpoint/remote/claim.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/system/background_thread.h"
#include "base/text/digits.h"
#include "base/text/text.h"
#include "store/encoding/digest.h"
#include "store/local/lock.h"
#include "store/servers/buckets.h"

namespace tessera::remote {
namespace {

constexpr size_t kMaxClaim = 1000;  // bytes shown of an object that may be anyone's

// A claim is "TOKEN COUNT PID HOST".
std::vector<std::string> words_of(const std::string& claim) { return split(claim.substr(0, kMaxClaim), ' '); }

std::string owner_of(const std::string& claim) {
  const std::vector<std::string> words = words_of(claim);
  return words.size() == 4 ? fmt::format("process {} on {}", one_line(words[2]), one_line(words[3])) : "another program";
}

// A process of `host` that has ended.
bool is_gone(const std::string& claim, const std::string& host) {
  const std::vector<std::string> words = words_of(claim);
  if (words.size() != 4 || words[3] != host) return false;
  const int64_t pid = parse_digits(words[2]).value_or(0);
  return pid > 0 && process_is_dead(pid);
}

}  // namespace

Claim::Claim(std::string url, ClaimOptions options)
    : url_(std::move(url)), token_(store::random_hex(8)), options_(std::move(options)) {
  wait_for_owner();
  store::write_object(url_, text());
  settled_ = std::chrono::steady_clock::now() + options_.settled;
  renewing_ = std::thread([this] { renew(); });
}

Claim::~Claim() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  renewing_.join();
  try {
    expect_held();
    store::remove_object(url_);
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception&) {  // the next one watches it in vain
  }
}

void Claim::expect_held() const {
  std::this_thread::sleep_until(settled_);
  const std::optional<std::string> found = store::read_object(url_);
  if (found && is_ours(*found)) return;
  throw data_error(fmt::format("the run in the bucket is another one's now: {}",
                               found ? owner_of(*found) : fmt::format("`{}` was removed", one_line(url_))),
                   {}, "nothing more is copied there; of two runs at one address stop one");
}

std::string Claim::text() { return fmt::format("{} {} {} {}", token_, ++writings_, getpid(), options_.host); }

bool Claim::is_ours(const std::string& found) const { return found.starts_with(token_ + " "); }

void Claim::wait_for_owner() {
  const std::optional<std::string> first = store::read_object(url_);
  if (!first || is_gone(*first, options_.host)) return;
  log_note(fmt::format("{} has or had this run; looking whether it is still there, {} s at most", owner_of(*first),
                       std::chrono::duration_cast<std::chrono::seconds>(options_.watched).count()));
  const auto end = std::chrono::steady_clock::now() + options_.watched;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(options_.watched / 20);
    const std::optional<std::string> now = store::read_object(url_);
    if (!now) return;
    if (*now == *first) continue;
    throw store::InUse(fmt::format("{} writes to this run", owner_of(*now)), one_line(url_),
                       "wait for its end, stop it, or choose another workdir");
  }
}

// A renewal that fails is tried again at the next turn: who watches waits for several.
void Claim::renew() {
  become_background_thread("claim", "run in a bucket");
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, options_.renewed, [&] { return ending_; })) {
    lock.unlock();
    try {
      expect_held();
      store::write_object(url_, text());
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception&) {
    }
    lock.lock();
  }
}

}  // namespace tessera::remote
