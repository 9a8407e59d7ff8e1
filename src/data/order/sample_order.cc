#include "data/order/sample_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace tessera::data {
namespace {

// Whole numbers in the ratio of the weights, of sum at most `limit`; exact with the smallest sum that is.
std::vector<int64_t> shares_of(const std::vector<double>& weights, int64_t limit) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares(weights.size());
  for (auto block = static_cast<int64_t>(weights.size()); block <= limit; ++block) {
    bool exact = true;
    for (size_t i = 0; i < weights.size() && exact; ++i) {
      const double part = weights[i] / sum * static_cast<double>(block);
      shares[i] = std::llround(part);
      exact = shares[i] >= 1 && std::abs(part - static_cast<double>(shares[i])) <= 1e-9 * part;
    }
    if (exact && std::accumulate(shares.begin(), shares.end(), int64_t{0}) == block) return shares;
  }
  // Largest remainders; every set keeps a place.
  std::vector<std::pair<double, size_t>> remainders;
  int64_t left = limit;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double part = weights[i] / sum * static_cast<double>(limit);
    shares[i] = std::max<int64_t>(1, static_cast<int64_t>(std::floor(part)));
    left -= shares[i];
    remainders.emplace_back(static_cast<double>(shares[i]) - part, i);
  }
  std::ranges::sort(remainders);
  for (size_t i = 0; left > 0; ++i, --left) ++shares[remainders[i % remainders.size()].second];
  for (; left < 0; ++left) --*std::ranges::max_element(shares);
  return shares;
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights, uint64_t seed) : seed_(seed), share_(shares_of(weights, kMaxBlock)) {
  TESSERA_CHECK(!weights.empty() && static_cast<int64_t>(weights.size()) <= kMaxBlock);
  for (size_t set = 0; set < share_.size(); ++set) {
    for (int64_t rank = 0; rank < share_[set]; ++rank) {
      set_.push_back(static_cast<int32_t>(set));
      rank_.push_back(rank);
    }
  }
}

uint64_t Mixture::key(int64_t lane, uint64_t block) const {
  Rng rng(seed_, block, hash_name("mixture") + static_cast<uint64_t>(lane));
  const uint64_t high = rng.next(), low = rng.next();
  return (high << 32) | low;
}

Mixture::Pick Mixture::at(LanePlace place) const {
  const uint64_t size = set_.size(), block = place.position / size;
  const size_t dealt = permute(place.position % size, size, key(place.lane, block));
  const int32_t set = set_[dealt];
  return {set, block * static_cast<uint64_t>(share_[static_cast<size_t>(set)]) + static_cast<uint64_t>(rank_[dealt])};
}

std::vector<uint64_t> Mixture::counts(LanePlace place) const {
  const uint64_t size = set_.size(), block = place.position / size, block_key = key(place.lane, block);
  std::vector<uint64_t> counts;
  for (const int64_t share : share_) counts.push_back(block * static_cast<uint64_t>(share));
  for (uint64_t i = 0; i < place.position % size; ++i) ++counts[static_cast<size_t>(set_[permute(i, size, block_key)])];
  return counts;
}

SampleOrder::SampleOrder(std::vector<OrderedSet> sets, int64_t batch, int64_t lanes, uint64_t seed)
    : sets_(std::move(sets)), batch_(static_cast<uint64_t>(batch)), lanes_(static_cast<uint64_t>(lanes)) {
  TESSERA_CHECK(!sets_.empty() && lanes >= 1 && batch % lanes == 0);
  if (sets_.size() == 1) return;
  std::vector<double> weights;
  for (const OrderedSet& set : sets_) weights.push_back(set.weight);
  mixture_.emplace_back(weights, seed);
}

LanePlace SampleOrder::place_of(uint64_t position) const {
  const uint64_t rows = batch_ / lanes_, row = position % batch_;
  return {static_cast<int64_t>(row / rows), position / batch_ * rows + row % rows};
}

Mixture::Pick SampleOrder::pick(LanePlace place) const {
  return mixture_.empty() ? Mixture::Pick{0, place.position} : mixture_.front().at(place);
}

SamplePick SampleOrder::at(uint64_t position) const {
  const LanePlace place = place_of(position);
  const auto [set, in_set] = pick(place);
  const Position at = sets_[static_cast<size_t>(set)].order->at({place.lane, in_set});
  return {set, at.epoch, at.sample};
}

SamplePick SampleOrder::replacement(uint64_t position, uint64_t attempt) const {
  const LanePlace place = place_of(position);
  const auto [set, in_set] = pick(place);
  const Position at = sets_[static_cast<size_t>(set)].order->replacement({place.lane, in_set}, attempt);
  return {set, at.epoch, at.sample};
}

uint64_t SampleOrder::reach(uint64_t position) const {
  return sets_[static_cast<size_t>(pick(place_of(position)).set)].order->reach();
}

std::vector<uint64_t> SampleOrder::seen(uint64_t positions) const {
  if (mixture_.empty()) return {positions};
  std::vector<uint64_t> sums(sets_.size());
  const uint64_t rows = batch_ / lanes_, batches = positions / batch_, row = positions % batch_;
  for (uint64_t lane = 0; lane < lanes_; ++lane) {
    const uint64_t in_batch = std::min(rows, row - std::min(row, lane * rows));
    const std::vector<uint64_t> counts = mixture_.front().counts({static_cast<int64_t>(lane), batches * rows + in_batch});
    for (size_t i = 0; i < counts.size(); ++i) sums[i] += counts[i];
  }
  return sums;
}

uint64_t seed_of_set(uint64_t seed, size_t set) { return seed ^ (hash_name("set") * set); }

int64_t lane_count(int64_t batch, int64_t most) {
  int64_t lanes = std::min(batch, most);
  while (batch % lanes != 0) --lanes;
  return lanes;
}

}  // namespace tessera::data
