#include "data/order/sample_order.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace tessera::data {
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
  const LanePlace place = place_of(position);
  const auto [set, in_set] = pick(place);
  return sets_[static_cast<size_t>(set)].order->reach({place.lane, in_set});
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
