#pragma once
// One writer at a time for a run in a bucket.
//
// Arrow's filesystems have no writes under a condition, so a claim is an object that its owner writes anew every few seconds.
// Whoever finds one watches it: one that changes has an owner, one that does not is of a process that is gone. Clocks are not
// compared. Two that find none at the same time write theirs, wait longer than a write takes, and look again: the one that wrote
// last has it (Fischer's algorithm; L. Lamport, "A Fast Mutual Exclusion Algorithm", 1987, describes it). Servers show a write
// to every read that begins after it, as S3 and Google Cloud Storage do. Where a write takes longer than
// that wait, the one that has looked loses its claim, and does not know it before it looks again.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "base/system/process.h"

namespace tessera::remote {

struct ClaimOptions {
  std::chrono::milliseconds renewed{15'000};  // from one writing to the next
  std::chrono::milliseconds watched{60'000};  // how long a claim stays as it is until its owner counts as gone
  std::chrono::milliseconds settled{2'000};   // from writing the claim to looking whose it is
  std::string host = host_name();             // a process of this one that has ended is known to be gone
};

class Claim {
 public:
  // Writes the object `url`. Waits while it has to watch another one's, with a note. Throws store::InUse, which names the
  // owner, where there is one, and a data Error where the bucket refuses.
  explicit Claim(std::string url, ClaimOptions options = {});
  // Removes the object, where it is this one's and the server lets it.
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  // Asks the server, once the claim has settled: to be called before anything is written. Throws a data Error where the object is
  // another one's by now, or gone.
  void expect_held() const;

 private:
  std::string text();
  bool is_ours(const std::string& found) const;
  void wait_for_owner();
  void renew();

  const std::string url_, token_;
  const ClaimOptions options_;
  int64_t writings_ = 0;                           // of the constructor, then of `renewing_` alone
  std::chrono::steady_clock::time_point settled_;  // from when on what the object says counts

  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread renewing_;
};

}  // namespace tessera::remote
