#include "data/formats/highway_hash.h"

#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::data {
namespace {

using Lanes = std::array<uint64_t, 4>;

constexpr Lanes kInit0 = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3};
constexpr Lanes kInit1 = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377};
constexpr size_t kPacket = 32;

struct State {
  Lanes v0, v1, mul0 = kInit0, mul1 = kInit1;

  explicit State(const HighwayKey& key) {
    for (size_t i = 0; i < 4; ++i) {
      v0[i] = mul0[i] ^ key[i];
      v1[i] = mul1[i] ^ std::rotl(key[i], 32);
    }
  }

  void update(const Lanes& packet) {
    for (size_t i = 0; i < 4; ++i) {
      v1[i] += mul0[i] + packet[i];
      mul0[i] ^= (v1[i] & 0xffffffff) * (v0[i] >> 32);
      v0[i] += mul1[i];
      mul1[i] ^= (v0[i] & 0xffffffff) * (v1[i] >> 32);
    }
    zipper_merge(v1, v0);
    zipper_merge(v0, v1);
  }

  void update(const char* bytes) {
    Lanes packet;
    std::memcpy(packet.data(), bytes, kPacket);
    update(packet);
  }

  // to += the bytes of `from`, mixed within each half.
  static void zipper_merge(const Lanes& from, Lanes& to) {
    for (size_t half = 0; half < 4; half += 2) {
      const uint64_t a = from[half], b = from[half + 1];
      to[half] += (((a & 0xff000000) | (b & 0xff00000000)) >> 24) | (((a & 0xff0000000000) | (b & 0xff000000000000)) >> 16) |
                  (a & 0xff0000) | ((a & 0xff00) << 32) | ((b & 0xff00000000000000) >> 8) | (a << 56);
      to[half + 1] += (((b & 0xff000000) | (a & 0xff00000000)) >> 24) | (b & 0xff0000) | ((b & 0xff0000000000) >> 16) |
                      ((b & 0xff00) << 24) | ((a & 0xff000000000000) >> 8) | ((b & 0xff) << 48) | (a & 0xff00000000000000);
    }
  }

  // The last 1..31 bytes.
  void update_rest(std::string_view rest) {
    const size_t size = rest.size(), tail = size & 3;
    for (size_t i = 0; i < 4; ++i) {
      v0[i] += (uint64_t{size} << 32) + size;
      const auto low = static_cast<uint32_t>(v1[i]), high = static_cast<uint32_t>(v1[i] >> 32);
      v1[i] = std::rotl(low, static_cast<int>(size)) | uint64_t{std::rotl(high, static_cast<int>(size))} << 32;
    }
    char packet[kPacket] = {};
    const size_t whole = size & ~size_t{3};
    std::memcpy(packet, rest.data(), whole);
    const char* end = rest.data() + whole;
    if (size & 16) {
      std::memcpy(packet + 28, end + tail - 4, 4);
    } else if (tail > 0) {
      packet[16] = end[0];
      packet[17] = end[tail >> 1];
      packet[18] = end[tail - 1];
    }
    update(packet);
  }

  uint64_t finish() {
    for (int round = 0; round < 4; ++round)
      update(Lanes{std::rotl(v0[2], 32), std::rotl(v0[3], 32), std::rotl(v0[0], 32), std::rotl(v0[1], 32)});
    return v0[0] + v1[0] + mul0[0] + mul1[0];
  }
};

void absorb_portable(State& state, const char* bytes, size_t packets) {
  for (; packets > 0; --packets, bytes += kPacket) state.update(bytes);
}

#if defined(__x86_64__)
#define TESSERA_AVX2 __attribute__((target("avx2")))

TESSERA_AVX2 __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
TESSERA_AVX2 void keep(Lanes& to, __m256i from) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.data()), from); }

// What zipper_merge adds: a permutation of the bytes of each half.
TESSERA_AVX2 __m256i zipper(__m256i v) {
  const __m256i order = _mm256_set_epi64x(0x070806090D0A040B, 0x000F010E05020C03, 0x070806090D0A040B, 0x000F010E05020C03);
  return _mm256_shuffle_epi8(v, order);
}

TESSERA_AVX2 void absorb_avx2(State& state, const char* bytes, size_t packets) {
  __m256i v0 = load(&state.v0), v1 = load(&state.v1), mul0 = load(&state.mul0), mul1 = load(&state.mul1);
  for (; packets > 0; --packets, bytes += kPacket) {
    v1 = _mm256_add_epi64(v1, _mm256_add_epi64(mul0, load(bytes)));
    mul0 = _mm256_xor_si256(mul0, _mm256_mul_epu32(v1, _mm256_srli_epi64(v0, 32)));
    v0 = _mm256_add_epi64(v0, mul1);
    mul1 = _mm256_xor_si256(mul1, _mm256_mul_epu32(v0, _mm256_srli_epi64(v1, 32)));
    v0 = _mm256_add_epi64(v0, zipper(v1));
    v1 = _mm256_add_epi64(v1, zipper(v0));
  }
  keep(state.v0, v0), keep(state.v1, v1), keep(state.mul0, mul0), keep(state.mul1, mul1);
}
#endif

using Absorb = void (*)(State&, const char*, size_t);

Absorb choose_absorb() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return absorb_avx2;
#endif
  return absorb_portable;
}

uint64_t hash(Absorb absorb, const HighwayKey& key, std::string_view bytes) {
  State state(key);
  const size_t packets = bytes.size() / kPacket;
  absorb(state, bytes.data(), packets);
  bytes.remove_prefix(packets * kPacket);
  if (!bytes.empty()) state.update_rest(bytes);
  return state.finish();
}

}  // namespace

uint64_t highway_hash(const HighwayKey& key, std::string_view bytes) {
  static const Absorb absorb = choose_absorb();
  return hash(absorb, key, bytes);
}

uint64_t highway_hash_portable(const HighwayKey& key, std::string_view bytes) { return hash(absorb_portable, key, bytes); }

}  // namespace tessera::data
