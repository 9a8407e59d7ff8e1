#pragma once
// The order of one data set's samples as a function of position. Positions 0, 1, 2, … run on across epochs, each of which holds
// every sample once. A batch may span two epochs, so no sample is dropped, and to resume needs a number, not a buffer.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera::data {

struct Position {
  uint64_t epoch = 0;
  int64_t sample = 0;
};

// Where one lane of an order stands: lanes are cut from every epoch, and each runs through its own part of it. A lane's rows of
// every batch are neighbours, so that a host reads its own lanes only (sample_order.h).
struct LanePlace {
  int64_t lane = 0;
  uint64_t position = 0;  // in the lane
};

class Order {
 public:
  virtual ~Order() = default;
  virtual int64_t size() const = 0;
  virtual Position at(LanePlace place) const = 0;
  // The sample to try instead of the one at `place` that could not be read: attempt 1 .. reach(place) - 1 visits other samples of
  // the epoch, each once, beginning half a lane away, so that a replacement is not soon seen again.
  virtual Position replacement(LanePlace place, uint64_t attempt) const = 0;
  virtual uint64_t reach(LanePlace place) const = 0;
};

// Every epoch a keyed permutation of all n >= 1 samples, computed anew for each position: no memory. Lane l of `lanes` takes
// positions l, l + lanes, l + 2 lanes, …
class FullShuffle final : public Order {
 public:
  FullShuffle(int64_t n, uint64_t seed, int64_t lanes = 1);
  int64_t size() const override { return static_cast<int64_t>(n_); }
  Position at(LanePlace place) const override;
  Position replacement(LanePlace place, uint64_t attempt) const override;
  uint64_t reach(LanePlace) const override { return n_; }

 private:
  Position in_epoch(uint64_t epoch, uint64_t place) const;
  uint64_t n_, seed_, lanes_;
};

// For data that is fast to read only in sequence. The data set is a sequence of stretches (a row group, a piece of a shard).
// Every epoch permutes the stretches, cuts the samples in that order into `lanes` parts (equal ones, but for one sample, in
// turns), and permutes inside windows of `window` samples of a part. Memory: 8 bytes a stretch for each epoch in use.
// Thread-safe.
class WindowShuffle final : public Order {
 public:
  // `stretches` are the first samples of each, ascending from 0; 1 <= lanes <= n.
  WindowShuffle(int64_t n, std::vector<int64_t> stretches, uint64_t seed, int64_t lanes, int64_t window);
  int64_t size() const override { return static_cast<int64_t>(n_); }
  Position at(LanePlace place) const override;
  Position replacement(LanePlace place, uint64_t attempt) const override;
  uint64_t reach(LanePlace) const override { return n_ / lanes_; }

 private:
  using Ends = std::vector<int64_t>;  // of the stretches in an epoch's order
  // A lane's part of an epoch: where it lies in the epoch's order, and which of the lane's positions is its first.
  struct LaneEpoch {
    uint64_t epoch, begin, length, first;
  };
  LaneEpoch part_at(LanePlace place) const;
  Position in_part(const LaneEpoch& part, uint64_t place) const;
  std::shared_ptr<const Ends> ends(uint64_t epoch) const;

  uint64_t n_, lanes_, window_, seed_;
  std::vector<int64_t> first_;
  mutable std::mutex mutex_;
  mutable std::map<uint64_t, std::shared_ptr<const Ends>> epochs_;  // the latest few
};

// Stretches of `length` samples, for a source without its own.
std::vector<int64_t> even_stretches(int64_t n, int64_t length);

}  // namespace tessera::data
