#include "data/order.h"

#include "base/rng.h"

namespace tessera::data {

Position Order::in_epoch(uint64_t epoch, uint64_t place) const {
  Rng rng(seed_, epoch, hash_name("order"));
  const uint64_t high = rng.next(), low = rng.next();
  return {epoch, static_cast<int64_t>(permute(place, n_, (high << 32) | low))};
}

Position Order::at(uint64_t position) const { return in_epoch(position / n_, position % n_); }

Position Order::replacement(uint64_t position, uint64_t attempt) const {
  const uint64_t place = position % n_, skip = n_ / 2;
  // The attempts' distances are skip, skip + 1, …, n - 1, 1, 2, …, skip - 1.
  uint64_t distance = skip == 0 ? attempt : skip + attempt - 1;
  if (distance >= n_) distance -= n_ - 1;
  return in_epoch(position / n_, (place + distance) % n_);
}

}  // namespace tessera::data
