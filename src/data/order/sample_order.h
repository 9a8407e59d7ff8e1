#pragma once
// What every position of a training run holds: position -> lane -> data set of the mixture -> epoch and sample of that set.
//
// Positions are numbered through the global batches: p = batch B + row, and a host takes its rows of each. Row r belongs to
// lane r / (B / lanes); a lane meets its own sequence of samples. So any number of hosts makes the same global batches, and
// hosts that take whole lanes read whole stretches (order.h).

#include <memory>
#include <vector>

#include "data/order/mixture.h"
#include "data/order/order.h"

namespace tessera::data {

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
