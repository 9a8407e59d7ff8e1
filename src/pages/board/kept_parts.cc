#include "pages/board/kept_parts.h"

namespace tessera::board {
namespace {

constexpr size_t kMaxParts = 256;
constexpr int kShare = 100;  // of the time, one part in so many

}  // namespace

std::string KeptParts::get(const std::string& key, int64_t version, bool trains, const std::function<std::string()>& make) {
  std::shared_ptr<KeptPart> part;
  {
    const std::lock_guard lock(mutex_);
    if (parts_.size() >= kMaxParts) parts_.clear();
    std::shared_ptr<KeptPart>& place = parts_[key];
    if (!place) place = std::make_shared<KeptPart>();
    part = place;
  }
  const std::lock_guard lock(part->mutex);
  const Clock::time_point start = now_();
  const bool stays = part->trained && trains && start < part->stays_until;
  if (part->version == version || stays) return part->text;
  part->text = make();
  part->version = version;
  part->trained = trains;
  const Clock::time_point end = now_();
  part->stays_until = end + (kShare - 1) * (end - start);
  return part->text;
}

}  // namespace tessera::board
