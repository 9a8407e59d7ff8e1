#pragma once
// The merges of byte-pair encoding.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tessera::data {

class Merges {
 public:
  // Pairs that come first are merged first; of a pair that comes twice the last counts.
  void add(int32_t left, int32_t right, int32_t merged);
  // Merges the ids of one word until no pair is left: always the earliest pair, and of several places the leftmost. O(n log n).
  void apply(std::vector<int32_t>& word) const;

 private:
  struct Merge {
    int32_t rank, id;
  };
  const Merge* find(int32_t left, int32_t right) const;
  std::unordered_map<uint64_t, Merge> merges_;
  int32_t next_rank_ = 0;
};

}  // namespace tessera::data
