#pragma once
// An order in which rare classes come as often as frequent ones.

#include <cstdint>
#include <vector>

#include "data/order/mixture.h"
#include "data/order/order.h"

namespace tessera::data {

// Every class is a set of a mixture (mixture.h), and has a FullShuffle of its own: all its samples are drawn once before any is
// drawn again. A class of n samples has the weight n^(1 - power): with power 1 all classes come equally often, with 0 as often
// as in the data. Position::epoch counts how often the class was gone through, so that a sample that comes again is augmented in
// another way. Memory: 4 bytes a sample.
class BalancedShuffle final : public Order {
 public:
  // `labels`: the class of each sample, -1 for one that is never drawn. At least one sample has a class; power in [0, 1].
  BalancedShuffle(const std::vector<int32_t>& labels, double power, uint64_t seed, int64_t lanes = 1);
  int64_t size() const override { return size_; }
  Position at(LanePlace place) const override;
  // Those of the same class first, then those of all others.
  Position replacement(LanePlace place, uint64_t attempt) const override;
  uint64_t reach(LanePlace) const override { return samples_.size(); }

 private:
  struct Class {
    uint64_t first;  // of samples_
    FullShuffle order;
  };
  int64_t size_;
  std::vector<int32_t> samples_;  // class by class
  std::vector<Class> classes_;    // those with samples
  std::vector<Mixture> mixture_;  // one
};

}  // namespace tessera::data
