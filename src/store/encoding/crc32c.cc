#include "store/encoding/crc32c.h"

#include <fmt/core.h>

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tessera::store {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41, bits reversed

// kTable[k][b]: the register after byte b and k zero bytes, so that eight bytes are folded at once.
using Table = std::array<std::array<uint32_t, 256>, 8>;

constexpr Table make_table() {
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    table[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = table[k - 1][byte];
      table[k][byte] = (crc >> 8) ^ table[0][crc & 0xff];
    }
  }
  return table;
}

constexpr Table kTable = make_table();

uint32_t step_byte(uint32_t state, std::byte byte) {
  return (state >> 8) ^ kTable[0][(state ^ static_cast<uint32_t>(byte)) & 0xff];
}

uint32_t update_portable(uint32_t state, const std::byte* p, size_t n) {
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= state;
    state = 0;
    for (size_t i = 0; i < 8; ++i) state ^= kTable[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; n > 0; --n, ++p) state = step_byte(state, *p);
  return state;
}

#if defined(__x86_64__)
// The instruction takes three cycles but one can start each cycle: three stripes side by side hide the wait.
constexpr size_t kStripe = 1024;
using Shift = std::array<std::array<uint32_t, 256>, 4>;

// The register after kStripe zero bytes, as a table for each of its four bytes (the map is linear over GF(2)).
Shift make_shift() {
  std::array<uint32_t, 32> basis{};
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t state = uint32_t{1} << bit;
    for (size_t i = 0; i < kStripe; ++i) state = step_byte(state, std::byte{0});
    basis[bit] = state;
  }
  Shift shift{};
  for (size_t k = 0; k < 4; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      for (size_t bit = 0; bit < 8; ++bit) shift[k][byte] ^= ((byte >> bit) & 1) ? basis[8 * k + bit] : 0;
    }
  }
  return shift;
}

uint64_t load(const std::byte* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t update_sse42(uint32_t state, const std::byte* p, size_t n) {
  static const Shift shift = make_shift();
  const auto past_stripe = [](uint64_t s) {
    return shift[0][s & 0xff] ^ shift[1][(s >> 8) & 0xff] ^ shift[2][(s >> 16) & 0xff] ^ shift[3][(s >> 24) & 0xff];
  };
  for (; n >= 3 * kStripe; n -= 3 * kStripe, p += 3 * kStripe) {
    uint64_t a = state, b = 0, c = 0;
    for (size_t i = 0; i < kStripe; i += 8) {
      a = _mm_crc32_u64(a, load(p + i));
      b = _mm_crc32_u64(b, load(p + kStripe + i));
      c = _mm_crc32_u64(c, load(p + 2 * kStripe + i));
    }
    state = past_stripe(past_stripe(a) ^ b) ^ static_cast<uint32_t>(c);
  }
  uint64_t wide = state;
  for (; n >= 8; n -= 8, p += 8) wide = _mm_crc32_u64(wide, load(p));
  state = static_cast<uint32_t>(wide);
  for (; n > 0; --n, ++p) state = _mm_crc32_u8(state, static_cast<uint8_t>(*p));
  return state;
}
#endif

using Update = uint32_t (*)(uint32_t, const std::byte*, size_t);

Update choose_update() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return update_sse42;
#endif
  return update_portable;
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  static const Update update = choose_update();
  return ~update(~crc, bytes.data(), bytes.size());
}

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc) {
  return ~update_portable(~crc, bytes.data(), bytes.size());
}

std::string crc32c_text(uint32_t crc) { return fmt::format("{:08x}", crc); }

}  // namespace tessera::store
