#pragma once
// Sample order as a function of position. Positions 0, 1, 2, … run on across epochs: epoch p / n, and inside it a keyed
// permutation of all n samples. A batch may span two epochs, so no sample is dropped, and to resume needs a number, not a
// buffer.

#include <cstdint>

namespace tessera::data {

struct Position {
  uint64_t epoch = 0;
  int64_t sample = 0;
};

class Order {
 public:
  // n >= 1 samples.
  Order(int64_t n, uint64_t seed) : n_(static_cast<uint64_t>(n)), seed_(seed) {}
  Position at(uint64_t position) const;
  // The sample to try instead of the one at `position` that could not be read; attempt 1 .. n - 1 visits every other sample of
  // the epoch once, beginning half an epoch away, so that a replacement is not soon seen again.
  Position replacement(uint64_t position, uint64_t attempt) const;
  int64_t size() const { return static_cast<int64_t>(n_); }

 private:
  Position in_epoch(uint64_t epoch, uint64_t place) const;
  uint64_t n_, seed_;
};

}  // namespace tessera::data
