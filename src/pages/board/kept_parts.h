#pragma once
// A cache of answers that take long to make. Each is made once for all readers, and again when its run has news. While the run
// trains, an answer is made so rarely that this takes a hundredth of the time, because a longer run takes longer to read;
// readers get the last one until then.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace tessera::board {

class KeptParts {
 public:
  using Clock = std::chrono::steady_clock;
  explicit KeptParts(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  // What `make` gave for the key, or gives now. `version` differs when there is news; `trains`: the run goes on. From any
  // thread. A reader that asks while another makes the same answer waits for that.
  std::string get(const std::string& key, int64_t version, bool trains, const std::function<std::string()>& make);

 private:
  struct KeptPart {
    std::mutex mutex;  // held while it is made
    int64_t version = -1;
    bool trained = false;  // when it was made
    Clock::time_point stays_until{};
    std::string text;
  };
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<KeptPart>> parts_;
};

}  // namespace tessera::board
