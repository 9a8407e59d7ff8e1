#include "data/order/repeated.h"

#include <utility>

#include "base/error.h"

namespace tessera::data {

Repeated::Repeated(std::shared_ptr<const Order> order, int64_t times)
    : order_(std::move(order)), times_(static_cast<uint64_t>(times)) {
  TESSERA_CHECK(times >= 1, "{} copies", times);
}

Position Repeated::at(LanePlace place) const { return copy_of(order_->at(inner(place)), place); }

Position Repeated::replacement(LanePlace place, uint64_t attempt) const {
  return copy_of(order_->replacement(inner(place), attempt), place);
}

Position Repeated::copy_of(Position position, LanePlace place) const {
  return {position.epoch * times_ + place.position % times_, position.sample};
}

}  // namespace tessera::data
