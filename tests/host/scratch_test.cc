#include "host/units/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace tessera::host {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Where a call's memory of so many bytes is, after writing to all of it.
const void* used(int64_t bytes) {
  CallScratch scratch;
  auto* memory = scratch.get<uint8_t>(bytes);
  std::memset(memory, 1, static_cast<size_t>(bytes));
  return memory;
}

TEST(Scratch, GrowsAndIsKept) {
  Scratch scratch;
  auto* first = scratch.get<float>(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % Scratch::kAlign, 0U);
  EXPECT_EQ(scratch.get<float>(10), first);
  auto* larger = scratch.get<float>(kMiB);
  larger[kMiB - 1] = 1;
  EXPECT_EQ(scratch.get<float>(1000), larger);
}

TEST(CallScratch, ABlockGoesFromCallToCallAndFromThreadToThread) {
  const void* const block = used(3 * kMiB);
  EXPECT_EQ(used(3 * kMiB), block);
  EXPECT_EQ(used(2 * kMiB), block) << "of nearly the size";
  std::set<const void*> elsewhere;
  for (int i = 0; i < 8; ++i) std::thread([&] { elsewhere.insert(used(3 * kMiB)); }).join();
  EXPECT_EQ(elsewhere, std::set<const void*>{block}) << "one block for calls one after the other, whatever their threads";
}

TEST(CallScratch, CallsAtATimeHaveTheirOwn) {
  CallScratch first, second;
  auto* a = first.get<uint8_t>(kMiB);
  auto* b = second.get<uint8_t>(kMiB);
  std::memset(a, 1, kMiB);
  std::memset(b, 2, kMiB);
  EXPECT_EQ(a[kMiB - 1], 1);
  EXPECT_EQ(b[0], 2);
}

TEST(CallScratch, ASmallRequestLeavesALargeBlockAlone) {
  const void* const large = used(64 * kMiB);
  CallScratch small;
  EXPECT_NE(small.get<uint8_t>(1000), large);
  EXPECT_EQ(used(64 * kMiB), large) << "for the call within";
}

TEST(CallScratch, GrowsWithinACall) {
  CallScratch scratch;
  scratch.get<uint8_t>(1000);
  auto* memory = scratch.get<uint8_t>(5 * kMiB);
  std::memset(memory, 1, 5 * kMiB);
  EXPECT_EQ(memory[5 * kMiB - 1], 1);
}

}  // namespace
}  // namespace tessera::host
