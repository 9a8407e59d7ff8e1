#include "store/encoding/crc32c.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "store/encoding/bytes.h"

namespace tessera::store {
namespace {

std::vector<std::byte> fill(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(n);
  for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32c, PublishedVectors) {
  std::vector<std::byte> zeros(32, std::byte{0}), ones(32, std::byte{0xff}), up(32), down(32);
  for (size_t i = 0; i < 32; ++i) up[i] = static_cast<std::byte>(i), down[i] = static_cast<std::byte>(31 - i);
  for (const auto function : {crc32c, crc32c_portable}) {
    EXPECT_EQ(function(zeros, 0), 0x8a9136aau);
    EXPECT_EQ(function(ones, 0), 0x62a8ab43u);
    EXPECT_EQ(function(up, 0), 0x46dd794eu);
    EXPECT_EQ(function(down, 0), 0x113fdb5cu);
    EXPECT_EQ(function(as_bytes("123456789"), 0), 0xe3069283u);
    EXPECT_EQ(function({}, 0), 0u);
  }
  EXPECT_EQ(crc32c_text(0x0a9136aau), "0a9136aa");
}

TEST(Crc32c, InstructionAndTableAgreeAtEveryLengthAndOffset) {
  const auto bytes = fill(20000, 1);
  for (const size_t length : {1u, 7u, 8u, 9u, 63u, 1023u, 3071u, 3072u, 3073u, 6144u, 9999u, 19990u}) {
    for (size_t offset = 0; offset < 9; ++offset) {
      const auto part = std::span(bytes).subspan(offset, length);
      ASSERT_EQ(crc32c(part), crc32c_portable(part)) << length << " at " << offset;
    }
  }
}

TEST(Crc32c, ContinuesOverParts) {
  const auto bytes = fill(9000, 2);
  const std::span<const std::byte> all(bytes);
  for (const size_t cut : {0u, 1u, 100u, 3072u, 8999u, 9000u}) {
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
  }
}

TEST(Crc32c, EverySingleBitCounts) {
  auto bytes = fill(64, 3);
  const uint32_t whole = crc32c(bytes);
  for (size_t bit = 0; bit < 64 * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(crc32c(bytes), whole);
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
}

}  // namespace
}  // namespace tessera::store
