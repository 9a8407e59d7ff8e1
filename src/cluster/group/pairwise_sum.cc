#include "cluster/group/pairwise_sum.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"

namespace tessera::group {
namespace {

constexpr size_t kBlock = 1024;  // numbers that stay in the first cache while they are added up

// Numbers [begin, begin + count) of the sum, into `out`, which overlaps no part.
void sum_block(std::span<const float* const> parts, size_t begin, size_t count, float* out) {
  const float* first = parts[0] + begin;
  if (parts.size() == 1) {
    std::copy_n(first, count, out);
    return;
  }
  if (parts.size() == 2) {
    const float* second = parts[1] + begin;
    for (size_t i = 0; i < count; ++i) out[i] = first[i] + second[i];
    return;
  }
  const size_t left = std::bit_ceil(parts.size()) / 2;
  std::array<float, kBlock> right;
  sum_block(parts.first(left), begin, count, out);
  sum_block(parts.subspan(left), begin, count, right.data());
  for (size_t i = 0; i < count; ++i) out[i] += right[i];
}

}  // namespace

void pairwise_sum(std::span<const float* const> parts, std::span<float> out) {
  TESSERA_CHECK(!parts.empty());
  std::array<float, kBlock> block;
  for (size_t begin = 0; begin < out.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, out.size() - begin);
    sum_block(parts, begin, count, block.data());
    std::copy_n(block.data(), count, out.data() + begin);
  }
}

}  // namespace tessera::group
