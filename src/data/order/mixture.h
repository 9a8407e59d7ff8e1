#pragma once
// Says which of several data sets each position holds, dealt out in blocks.

#include <vector>

#include "data/order/order.h"

namespace tessera::data {

// In each block of P positions of a lane, set i comes P weight_i / sum(weights) times, at places drawn by a keyed permutation. P
// is the smallest number that gives every weight exactly, or the larger of 16,384 and the number of sets, and then weights are
// rounded to 1 / P, and every set keeps a place.
class Mixture {
 public:
  static constexpr int64_t kMaxBlock = 16'384;
  // Weights above 0, of at least one set.
  Mixture(const std::vector<double>& weights, uint64_t seed);

  struct Pick {
    int32_t set = 0;
    uint64_t position = 0;  // among the lane's positions of that set
  };
  Pick at(LanePlace place) const;
  // How many of the lane's positions before place.position belong to each set.
  std::vector<uint64_t> counts(LanePlace place) const;
  int64_t block() const { return static_cast<int64_t>(set_.size()); }
  int64_t share(size_t set) const { return share_[set]; }  // of block()

 private:
  uint64_t key(int64_t lane, uint64_t block) const;
  uint64_t seed_;
  std::vector<int64_t> share_;
  std::vector<int32_t> set_;   // by place in the unshuffled block
  std::vector<int64_t> rank_;  // among its set's places
};

}  // namespace tessera::data
