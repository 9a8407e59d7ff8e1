#include "data/order/order.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace tessera::data {
namespace {

constexpr size_t kEpochsKept = 3;  // a batch may span two, and a replacement lags behind

uint64_t draw_key(uint64_t seed, uint64_t epoch, uint64_t site) {
  Rng rng(seed, epoch, site);
  const uint64_t high = rng.next(), low = rng.next();
  return (high << 32) | low;
}

// The places tried for `place` of n: n / 2 away, n / 2 + 1, …, n - 1, 1, 2, …, n / 2 - 1.
uint64_t replacement_place(uint64_t place, uint64_t n, uint64_t attempt) {
  const uint64_t skip = n / 2;
  uint64_t distance = skip == 0 ? attempt : skip + attempt - 1;
  if (distance >= n) distance -= n - 1;
  return (place + distance) % n;
}

}  // namespace

FullShuffle::FullShuffle(int64_t n, uint64_t seed, int64_t lanes)
    : n_(static_cast<uint64_t>(n)), seed_(seed), lanes_(static_cast<uint64_t>(lanes)) {
  TESSERA_CHECK(n >= 1 && lanes >= 1);
}

Position FullShuffle::in_epoch(uint64_t epoch, uint64_t place) const {
  return {epoch, static_cast<int64_t>(permute(place, n_, draw_key(seed_, epoch, hash_name("order"))))};
}

Position FullShuffle::at(LanePlace place) const {
  const uint64_t position = place.position * lanes_ + static_cast<uint64_t>(place.lane);
  return in_epoch(position / n_, position % n_);
}

Position FullShuffle::replacement(LanePlace place, uint64_t attempt) const {
  const uint64_t position = place.position * lanes_ + static_cast<uint64_t>(place.lane);
  return in_epoch(position / n_, replacement_place(position % n_, n_, attempt));
}

WindowShuffle::WindowShuffle(int64_t n, std::vector<int64_t> stretches, uint64_t seed, int64_t lanes, int64_t window)
    : n_(static_cast<uint64_t>(n)),
      lanes_(static_cast<uint64_t>(lanes)),
      window_(static_cast<uint64_t>(window)),
      seed_(seed),
      first_(std::move(stretches)) {
  TESSERA_CHECK(n >= 1 && lanes >= 1 && lanes <= n && window >= 1);
  TESSERA_CHECK(!first_.empty() && first_.front() == 0 && first_.back() < n && std::ranges::is_sorted(first_));
}

std::shared_ptr<const WindowShuffle::Ends> WindowShuffle::ends(uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Ends>& known = epochs_[epoch];
  if (known) return known;
  auto made = std::make_shared<Ends>(first_.size());
  const uint64_t key = draw_key(seed_, epoch, hash_name("stretches"));
  int64_t sum = 0;
  for (size_t i = 0; i < first_.size(); ++i) {
    const size_t s = permute(i, first_.size(), key);
    sum += (s + 1 < first_.size() ? first_[s + 1] : static_cast<int64_t>(n_)) - first_[s];
    (*made)[i] = sum;
  }
  known = made;
  while (epochs_.size() > kEpochsKept) {
    epochs_.erase(epochs_.begin()->first == epoch ? std::prev(epochs_.end()) : epochs_.begin());
  }
  return made;
}

// Lane l's positions are the run's l, l + lanes, l + 2 lanes, …, so that it has T(e) = ceil((e n - l) / lanes) of them before
// epoch e. The parts lie in the epoch's order lane by lane; all have n / lanes samples, and n mod lanes of them one more.
WindowShuffle::LaneEpoch WindowShuffle::part_at(LanePlace place) const {
  const auto lane = static_cast<uint64_t>(place.lane);
  const uint64_t epoch = (place.position * lanes_ + lane) / n_;
  const auto before = [&](uint64_t e) { return (e * n_ + lanes_ - 1 - lane) / lanes_; };
  // Lane l's part is longer where (e n + lanes - 1 - l) mod lanes >= lanes - n mod lanes. How many numbers below x are so:
  const uint64_t over = n_ % lanes_, start = epoch * n_ % lanes_;
  const auto longer = [&](uint64_t x) { return x / lanes_ * over + std::max(x % lanes_, lanes_ - over) - (lanes_ - over); };
  const uint64_t begin = n_ / lanes_ * lane + longer(start + lanes_) - longer(start + lanes_ - lane);
  return {epoch, begin, before(epoch + 1) - before(epoch), before(epoch)};
}

Position WindowShuffle::in_part(const LaneEpoch& part, uint64_t place) const {
  const uint64_t start = place / window_ * window_, length = std::min(window_, part.length - start);
  const uint64_t key = draw_key(seed_, part.epoch, hash_name("windows") + part.begin + start);
  const auto at = static_cast<int64_t>(part.begin + start + permute(place - start, length, key));
  const auto stretch_ends = ends(part.epoch);
  const auto i = static_cast<size_t>(std::ranges::upper_bound(*stretch_ends, at) - stretch_ends->begin());
  const size_t stretch = permute(i, first_.size(), draw_key(seed_, part.epoch, hash_name("stretches")));
  return {part.epoch, first_[stretch] + at - (i == 0 ? 0 : (*stretch_ends)[i - 1])};
}

Position WindowShuffle::at(LanePlace place) const {
  const LaneEpoch part = part_at(place);
  return in_part(part, place.position - part.first);
}

Position WindowShuffle::replacement(LanePlace place, uint64_t attempt) const {
  const LaneEpoch part = part_at(place);
  return in_part(part, replacement_place(place.position - part.first, part.length, attempt));
}

std::vector<int64_t> even_stretches(int64_t n, int64_t length) {
  std::vector<int64_t> first;
  first.reserve(static_cast<size_t>(n / length + 1));
  for (int64_t i = 0; i < n; i += length) first.push_back(i);
  return first;
}

}  // namespace tessera::data
