#include "base/box.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace tessera {
namespace {

int64_t at(const Dims& dims, const Dims& index) {
  int64_t position = 0;
  for (size_t i = 0; i < dims.size(); ++i) position = position * dims[i] + index[i];
  return position;
}

// The same, element by element.
int64_t copy_slowly(const Placed& from, const std::vector<int32_t>& data, const Placed& to, std::vector<int32_t>& out) {
  int64_t copied = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(data.size()); ++i) {
    Dims index(from.dims.size());
    int64_t rest = i;
    for (size_t d = from.dims.size(); d-- > 0;) index[d] = rest % from.dims[d], rest /= from.dims[d];
    bool inside = true;
    Dims there(index.size());
    for (size_t d = 0; d < index.size(); ++d) {
      there[d] = index[d] + from.offset[d] - to.offset[d];
      inside = inside && there[d] >= 0 && there[d] < to.dims[d];
    }
    if (inside) out[static_cast<size_t>(at(to.dims, there))] = data[static_cast<size_t>(i)], ++copied;
  }
  return copied;
}

TEST(Box, CopiesWhatTwoArraysHaveInCommon) {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) { return static_cast<int64_t>(std::uniform_int_distribution<>(low, high)(random)); };
  for (int round = 0; round < 500; ++round) {
    const int64_t rank = draw(0, 4);
    Placed from, to;
    for (int64_t d = 0; d < rank; ++d) {
      from.dims.push_back(draw(1, 5)), to.dims.push_back(draw(1, 5));
      from.offset.push_back(draw(0, 3)), to.offset.push_back(draw(0, 3));
      if (draw(0, 1)) to.dims.back() = from.dims.back(), to.offset.back() = from.offset.back();
    }
    std::vector<int32_t> data(static_cast<size_t>(element_count(from.dims)));
    std::iota(data.begin(), data.end(), 1);
    std::vector<int32_t> want(static_cast<size_t>(element_count(to.dims)), 0), got = want;
    const int64_t count = copy_slowly(from, data, to, want);
    EXPECT_EQ(
        copy_common(from, reinterpret_cast<const std::byte*>(data.data()), to, reinterpret_cast<std::byte*>(got.data()), 4),
        count);
    EXPECT_EQ(got, want);
  }
}

}  // namespace
}  // namespace tessera
