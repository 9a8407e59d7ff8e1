#pragma once
// Answers that many readers ask for at once: each is made once until the runs' files are looked at again.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "http/message.h"

namespace tessera::board {

// Safe to use from several threads.
class KeptAnswers {
 public:
  // What was kept for that request since the last look. Never waits for an answer that is being made.
  std::optional<http::Response> get(const http::Request& request) const;
  // The number of the last look, which put() wants: that from before the answer was made.
  int64_t look() const;
  // Keeps it, unless there was another look meanwhile, or it is one of too many or too large.
  void put(const http::Request& request, const http::Response& response, int64_t look);
  // The files were looked at: what is kept may be old.
  void next_look();

 private:
  mutable std::mutex mutex_;
  int64_t look_ = 0;
  std::map<std::string, http::Response> answers_;  // by path and query
};

}  // namespace tessera::board
