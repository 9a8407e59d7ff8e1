#include "store/servers/block_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

namespace tessera::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int64_t kBlock = BlockCache::kBlock;

std::byte byte_at(uint64_t file, int64_t offset) {
  return static_cast<std::byte>((static_cast<uint64_t>(offset) * 2654435761u + file * 97) >> 8);
}

// Bytes of files that are known, and the stretches that were asked for.
struct Server {
  std::vector<std::pair<int64_t, int64_t>> asked;  // offset, length
  BlockCache::Fetch of(uint64_t file) {
    return [this, file](int64_t offset, std::span<std::byte> out) {
      asked.emplace_back(offset, static_cast<int64_t>(out.size()));
      for (size_t i = 0; i < out.size(); ++i) out[i] = byte_at(file, offset + static_cast<int64_t>(i));
    };
  }
  std::vector<std::pair<int64_t, int64_t>> take() { return std::exchange(asked, {}); }
};

bool reads(BlockCache& cache, Server& server, uint64_t file, int64_t size, int64_t offset, int64_t length) {
  std::vector<std::byte> out(static_cast<size_t>(length));
  cache.read(file, size, offset, out, server.of(file));
  for (int64_t i = 0; i < length; ++i) {
    if (out[static_cast<size_t>(i)] != byte_at(file, offset + i)) return false;
  }
  return true;
}

TEST(BlockCache, AsksForNeighboursAtOnceAndForNothingTwice) {
  BlockCache cache(100 * kBlock);
  Server server;
  constexpr int64_t kSize = 10 * kBlock + 5;
  EXPECT_TRUE(reads(cache, server, 1, kSize, 3 * kBlock - 1, kBlock + 2));  // touches three blocks
  EXPECT_THAT(server.take(), ElementsAre(Pair(2 * kBlock, 3 * kBlock)));
  EXPECT_TRUE(reads(cache, server, 1, kSize, 4 * kBlock, kBlock));
  EXPECT_THAT(server.take(), IsEmpty());
  EXPECT_TRUE(reads(cache, server, 1, kSize, 0, kSize));  // those before and those behind; the last is short
  EXPECT_THAT(server.take(), ElementsAre(Pair(0, 2 * kBlock), Pair(5 * kBlock, 5 * kBlock + 5)));
  EXPECT_TRUE(reads(cache, server, 2, kSize, kSize - 1, 1));
  EXPECT_THAT(server.take(), ElementsAre(Pair(10 * kBlock, 5)));
  EXPECT_TRUE(reads(cache, server, 2, kSize, kSize, 0));
  EXPECT_THAT(server.take(), IsEmpty());
}

TEST(BlockCache, ForgetsWhatWasNotUsedForLongest) {
  BlockCache cache(2 * kBlock);
  Server server;
  constexpr int64_t kSize = 10 * kBlock;
  for (const int64_t block : {0, 1, 0, 2}) EXPECT_TRUE(reads(cache, server, 1, kSize, block * kBlock, 1));
  server.take();
  EXPECT_TRUE(reads(cache, server, 1, kSize, 0, 1));
  EXPECT_THAT(server.take(), IsEmpty());
  EXPECT_TRUE(reads(cache, server, 1, kSize, kBlock, 1));
  EXPECT_THAT(server.take(), ElementsAre(Pair(kBlock, kBlock)));
  EXPECT_TRUE(reads(cache, server, 1, kSize, 0, kSize));  // more than it keeps
}

TEST(BlockCache, PrefetchedBytesAreNotAskedForAgain) {
  BlockCache cache(100 * kBlock);
  Server server;
  cache.prefetch(1, 3 * kBlock, 5, kBlock, server.of(1));
  EXPECT_THAT(server.take(), ElementsAre(Pair(0, 2 * kBlock)));
  EXPECT_TRUE(reads(cache, server, 1, 3 * kBlock, 5, kBlock));
  EXPECT_THAT(server.take(), IsEmpty());
}

TEST(BlockCache, AFailureIsForgotten) {
  BlockCache cache(100 * kBlock);
  Server server;
  ASSERT_TRUE(reads(cache, server, 1, 9 * kBlock, 4 * kBlock, 1));
  server.take();
  const BlockCache::Fetch fails = [](int64_t, std::span<std::byte>) { throw std::runtime_error("no"); };
  std::vector<std::byte> out(9 * kBlock);
  EXPECT_THROW(cache.read(1, 9 * kBlock, 0, out, fails), std::runtime_error);
  EXPECT_TRUE(reads(cache, server, 1, 9 * kBlock, 0, 9 * kBlock));
  EXPECT_THAT(server.take(), ElementsAre(Pair(0, 4 * kBlock), Pair(5 * kBlock, 4 * kBlock)));
}

// Readers of overlapping stretches of few blocks, with fetches that fail now and then: bytes are right or the failure is thrown.
TEST(BlockCache, ManyThreadsGetTheRightBytes) {
  constexpr int64_t kSize = 20 * kBlock + 77;
  BlockCache cache(5 * kBlock);
  std::atomic<int> fetches{0}, wrong{0}, failed{0}, right{0};
  const auto work = [&](unsigned seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> out;
    for (int i = 0; i < 300; ++i) {
      const auto file = static_cast<uint64_t>(random() % 2);
      const auto offset = static_cast<int64_t>(random() % kSize);
      const auto length = std::min<int64_t>(kSize - offset, static_cast<int64_t>(random() % (3 * kBlock)) + 1);
      const BlockCache::Fetch fetch = [&](int64_t from, std::span<std::byte> to) {
        if (fetches++ % 7 == 6) throw std::runtime_error("no");
        for (size_t k = 0; k < to.size(); ++k) to[k] = byte_at(file, from + static_cast<int64_t>(k));
      };
      if (random() % 4 == 0) {
        try {
          cache.prefetch(file, kSize, offset, length, fetch);
        } catch (const std::runtime_error&) {
        }
        continue;
      }
      out.assign(static_cast<size_t>(length), std::byte{0});
      try {
        cache.read(file, kSize, offset, out, fetch);
        bool equal = true;
        for (int64_t k = 0; k < length; ++k) equal = equal && out[static_cast<size_t>(k)] == byte_at(file, offset + k);
        ++(equal ? right : wrong);
      } catch (const std::runtime_error&) {
        ++failed;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(failed, 0);
  EXPECT_GT(right, 300);
}

}  // namespace
}  // namespace tessera::store
