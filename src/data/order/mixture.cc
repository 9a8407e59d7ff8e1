#include "data/order/mixture.h"

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

Mixture::Mixture(const std::vector<double>& weights, uint64_t seed)
    : seed_(seed), share_(shares_of(weights, std::max(kMaxBlock, static_cast<int64_t>(weights.size())))) {
  TESSERA_CHECK(!weights.empty());
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

}  // namespace tessera::data
