#include "data/order/balanced_shuffle.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "data/order/sample_order.h"

namespace tessera::data {

BalancedShuffle::BalancedShuffle(const std::vector<int32_t>& labels, double power, uint64_t seed, int64_t lanes)
    : size_(static_cast<int64_t>(labels.size())) {
  std::vector<std::vector<int32_t>> by_class(static_cast<size_t>(std::max(0, std::ranges::max(labels) + 1)));
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0) by_class[static_cast<size_t>(labels[i])].push_back(static_cast<int32_t>(i));
  }
  std::vector<double> weights;
  for (size_t label = 0; label < by_class.size(); ++label) {
    const std::vector<int32_t>& own = by_class[label];
    if (own.empty()) continue;
    const auto n = static_cast<int64_t>(own.size());
    classes_.push_back({samples_.size(), FullShuffle(n, seed_of_set(seed, label), lanes)});
    samples_.insert(samples_.end(), own.begin(), own.end());
    weights.push_back(std::pow(static_cast<double>(n), 1 - power));
  }
  TESSERA_CHECK(!classes_.empty());
  mixture_.emplace_back(weights, seed ^ hash_name("classes"));
}

Position BalancedShuffle::at(LanePlace place) const {
  const Mixture::Pick pick = mixture_.front().at(place);
  const Class& own = classes_[static_cast<size_t>(pick.set)];
  const Position at = own.order.at({place.lane, pick.position});
  return {at.epoch, samples_[own.first + static_cast<uint64_t>(at.sample)]};
}

Position BalancedShuffle::replacement(LanePlace place, uint64_t attempt) const {
  const Mixture::Pick pick = mixture_.front().at(place);
  const Class& own = classes_[static_cast<size_t>(pick.set)];
  const LanePlace in_class{place.lane, pick.position};
  const auto n = static_cast<uint64_t>(own.order.size());
  if (attempt < n) {
    const Position at = own.order.replacement(in_class, attempt);
    return {at.epoch, samples_[own.first + static_cast<uint64_t>(at.sample)]};
  }
  // From a place on that differs from position to position.
  const uint64_t others = samples_.size() - n,
                 start = (pick.position + static_cast<uint64_t>(place.lane)) * 0x9e3779b9 % others;
  return {own.order.at(in_class).epoch, samples_[(own.first + n + (start + attempt - n) % others) % samples_.size()]};
}

}  // namespace tessera::data
