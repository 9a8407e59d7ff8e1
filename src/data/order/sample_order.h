#pragma once
// What every position of a training run holds: position -> lane -> data set of the mixture -> epoch and sample of that set.
//
// Positions are numbered through the global batches: p = batch B + row, and a host takes its rows of each. Row r belongs to
// lane r / (B / lanes); a lane meets its own sequence of samples. So any number of hosts makes the same global batches, and
// hosts that take whole lanes read whole stretches (order.h).
//
// A mixture deals out data sets in blocks: in each block of P positions of a lane, set i comes P weight_i / sum(weights) times,
// at places drawn by a keyed permutation. P is the smallest number that gives every weight exactly, or 16,384, and then
// weights are rounded to 1 / P.

#include <memory>
#include <vector>

#include "data/order/order.h"

namespace tessera::data {

class Mixture {
 public:
  static constexpr int64_t kMaxBlock = 16'384;
  // Weights above 0.
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

// One position, resolved.
struct SamplePick {
  int32_t set = 0;
  uint64_t epoch = 0;  // of the set
  int64_t sample = 0;
};

struct OrderedSet {
  std::shared_ptr<const Order> order;  // made for the same number of lanes
  double weight = 1;
};

class SampleOrder {
 public:
  // `lanes` must divide `batch`.
  SampleOrder(std::vector<OrderedSet> sets, int64_t batch, int64_t lanes, uint64_t seed);

  SamplePick at(uint64_t position) const;
  // Another sample of the same set and epoch; attempt 1 .. reach(position) - 1.
  SamplePick replacement(uint64_t position, uint64_t attempt) const;
  uint64_t reach(uint64_t position) const;
  // How many of the first `positions` positions hold samples of each set.
  std::vector<uint64_t> seen(uint64_t positions) const;

 private:
  LanePlace place_of(uint64_t position) const;
  Mixture::Pick pick(LanePlace place) const;
  std::vector<OrderedSet> sets_;
  std::vector<Mixture> mixture_;  // one, or none for a single set
  uint64_t batch_, lanes_;
};

// The seed of one set of a mixture: each has an order and draws of its own; the first one's are those of the set alone.
uint64_t seed_of_set(uint64_t seed, size_t set);

// The largest divisor of `batch` that is at most `most`.
int64_t lane_count(int64_t batch, int64_t most);

}  // namespace tessera::data
