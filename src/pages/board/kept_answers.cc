#include "pages/board/kept_answers.h"

namespace tessera::board {
namespace {

constexpr size_t kMaxAnswers = 64, kMaxBytes = size_t{1} << 20;

// Different for different requests: neither a path nor a parameter of a request holds a NUL.
std::string key_of(const http::Request& request) {
  std::string key = request.path;
  for (const auto& [name, value] : request.query) key.append(1, '\0').append(name).append(1, '\0').append(value);
  return key;
}

}  // namespace

std::optional<http::Response> KeptAnswers::get(const http::Request& request) const {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(key_of(request));
  if (found == answers_.end()) return std::nullopt;
  return found->second;
}

int64_t KeptAnswers::look() const {
  const std::lock_guard lock(mutex_);
  return look_;
}

void KeptAnswers::put(const http::Request& request, const http::Response& response, int64_t look) {
  if (response.body.size() > kMaxBytes) return;
  const std::lock_guard lock(mutex_);
  if (look == look_ && answers_.size() < kMaxAnswers) answers_.insert_or_assign(key_of(request), response);
}

void KeptAnswers::next_look() {
  const std::lock_guard lock(mutex_);
  ++look_;
  answers_.clear();
}

}  // namespace tessera::board
