#pragma once
// An array in as many parts as there are members, of sizes that differ by one at most.

#include <cstddef>
#include <cstdint>

namespace tessera::group {

struct Part {
  size_t begin, end;
  size_t size() const { return end - begin; }
};

// Of `count` numbers, those of member `m` of `n`.
inline Part part_of(size_t count, int64_t m, int64_t n) {
  const auto cut = [&](int64_t at) { return count * static_cast<size_t>(at) / static_cast<size_t>(n); };
  return {cut(m), cut(m + 1)};
}

}  // namespace tessera::group
