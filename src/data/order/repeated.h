#pragma once
// Repeated augmentation (Hoffer et al. 2020, "Augment Your Batch"): each sample of an order several times in a row, changed by other
// draws.

#include <memory>

#include "data/order/order.h"

namespace tessera::data {

// Position p of a lane is position p / times of `order`. An epoch of `order` takes `times` of a run's. Position::epoch counts the
// copies of a sample too, since draws follow from it.
class Repeated final : public Order {
 public:
  // times >= 1.
  Repeated(std::shared_ptr<const Order> order, int64_t times);
  int64_t size() const override { return order_->size(); }
  Position at(LanePlace place) const override;
  Position replacement(LanePlace place, uint64_t attempt) const override;
  uint64_t reach(LanePlace place) const override { return order_->reach(inner(place)); }

 private:
  LanePlace inner(LanePlace place) const { return {place.lane, place.position / times_}; }
  Position copy_of(Position position, LanePlace place) const;
  std::shared_ptr<const Order> order_;
  uint64_t times_;
};

}  // namespace tessera::data
