// Highway compiles this once for each instruction set, Huffman decoding too: that one is for shifts by any number of bits.

// SVE's lanes of ReorderDemote2To come in another order; NEON serves there.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/jpeg_blocks.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "data/jpeg_blocks.h"

#ifndef TESSERA_DATA_JPEG_BLOCKS_ONCE
#define TESSERA_DATA_JPEG_BLOCKS_ONCE
namespace tessera::data {
namespace {

constexpr std::array<uint8_t, 64> kZigzag = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                             12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                             35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                             58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

}  // namespace
}  // namespace tessera::data
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::data::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
}
HWY_AFTER_NAMESPACE();

#include "data/jpeg_idct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::data::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

bool read_row(const JpegMcuRow&, JpegCursor&) { return false; }

#else

// Where in a block the coefficient of each number goes; the moves that leave the block end elsewhere.
struct Order {
  uint8_t at[JpegAcTable::kFarthest];
  constexpr Order() : at() {
    for (size_t k = 0; k < std::size(at); ++k) at[k] = k < 64 ? kZigzag[k] : JpegTransform::kElsewhere;
  }
};
constexpr Order kOrder;

// A cursor's bits, which live in registers.
struct Bits {
  uint64_t bits, count;
  const uint8_t* next;

  // At least 56 bits are sure after this.
  HWY_INLINE void refill() {
    uint64_t bytes;
    std::memcpy(&bytes, next, sizeof bytes);
    if constexpr (std::endian::native == std::endian::little) bytes = __builtin_bswap64(bytes);
    bits |= bytes >> count;
    next += (63 - count) >> 3;
    count |= 56;
  }
  // Goes back by `length` bits.
  HWY_INLINE void give_back(uint64_t length, const uint8_t* data) {
    const uint64_t position = static_cast<uint64_t>(next - data) * 8 - count - length;
    next = data + position / 8;
    bits = count = 0;
    refill();
    skip(position % 8);
  }
  HWY_INLINE void skip(uint64_t length) {
    bits <<= length & 63;
    count -= length;
  }
  // The number that follows a code of `code` bits, 63 - `rest` bits long: a leading 0 means negative, with all bits inverted.
  HWY_INLINE int64_t value(uint64_t code, uint64_t rest) const {
    const uint64_t number = bits << (code & 63);
    const auto negative = static_cast<uint64_t>(static_cast<int64_t>(~number) >> 63);
    const uint64_t magnitude = ((number ^ negative) >> 1) >> (rest & 63);
    return static_cast<int64_t>((magnitude ^ negative) - negative);
  }
};

// The difference of a DC coefficient to its predecessor; false when there is no code.
HWY_INLINE bool read_dc(const JpegDcTable& table, Bits& in, int& dc) {
  uint32_t entry = table.entries[in.bits >> (64 - JpegDcTable::kBits)];
  if (HWY_UNLIKELY(entry == 0)) {
    entry = JpegDcTable::entry(table.codes.find(in.bits));
    if (entry == 0) return false;
  }
  dc += static_cast<int>(in.value(entry >> 8, entry >> 16));
  in.skip(entry & 0xFF);
  return dc == static_cast<int16_t>(dc);
}

// Takes an entry's symbols, the first of which starts after coefficient k, and moves k.
template <bool kKeep>
HWY_INLINE void take(uint64_t entry, Bits& in, int& k, int16_t* block) {
  const int second = k + jpeg_ac_move(entry);
  if constexpr (kKeep) {
    // In this order, for where there is no second symbol the first one's place is overwritten.
    block[kOrder.at[second]] = static_cast<int16_t>(entry >> 48);
    block[kOrder.at[k + jpeg_ac_first_move(entry)]] = static_cast<int16_t>(in.value(entry >> 8, entry >> 16));
  }
  in.skip(entry & 0xFF);
  k = second;
}

// Whether the block ended as it should with this entry, whose symbols moved to k. A second symbol that isn't the block's is
// given back.
HWY_INLINE bool leave(uint64_t entry, int k, Bits& in, const uint8_t* data) {
  const int first = k - jpeg_ac_move(entry) + jpeg_ac_first_move(entry);
  if (k == 63 || first >= JpegAcTable::kEndOfBlock) return true;
  if (first < 63) return k >= JpegAcTable::kEndOfBlock;
  if (first > 63) return false;
  const uint64_t length = (entry >> 8 & 0xFF) + 63 - (entry >> 16 & 0xFF);
  in.give_back((entry & 0xFF) - length, data);
  return true;
}

// The AC coefficients of a block. False when they aren't as they should be.
template <bool kKeep>
HWY_INLINE bool read_ac(const JpegAcTable& table, Bits& in, int16_t* block, const uint8_t* data) {
  const auto next_entry = [&] { return table.entries[in.bits >> (64 - JpegAcTable::kBits)]; };
  for (int k = 0;;) {
    in.refill();
    uint64_t entry = next_entry();
    take<kKeep>(entry, in, k, block);
    if (k < 63) {
      entry = next_entry();
      take<kKeep>(entry, in, k, block);
      if (k < 63) continue;
    }
    if (HWY_UNLIKELY(k >= JpegAcTable::kLongCode)) {
      k -= JpegAcTable::kLongCode;
      in.refill();
      entry = JpegAcTable::entry(table.codes.find(in.bits));
      if (jpeg_ac_move(entry) == JpegAcTable::kLongCode) return false;
      take<kKeep>(entry, in, k, block);
      if (k < 63) continue;
    }
    return leave(entry, k, in, data);
  }
}

// A block whose samples aren't wanted.
HWY_INLINE bool skip_block(const JpegBlock& block, Bits& in, int& dc, const uint8_t* data) {
  in.refill();
  return read_dc(*block.dc, in, dc) && read_ac<false>(*block.ac, in, nullptr, data);
}

HWY_INLINE bool read_block(const JpegBlock& block, Bits& in, int& dc, const uint8_t* data, uint8_t* samples,
                           JpegTransform& transform) {
  in.refill();
  if (!read_dc(*block.dc, in, dc)) return false;
  const uint64_t entry = block.ac->entries[in.bits >> (64 - JpegAcTable::kBits)];
  if (jpeg_ac_first_move(entry) == JpegAcTable::kEndOfBlock && jpeg_ac_move(entry) == JpegAcTable::kEndOfBlock) {
    in.skip(entry & 0xFF);
    transform.add_flat(dc, *block.quantisation, samples, block.stride);
    return true;
  }
  int16_t* coefficients = transform.next();
  coefficients[0] = static_cast<int16_t>(dc);
  if (!read_ac<true>(*block.ac, in, coefficients, data)) return false;
  transform.add(*block.quantisation, samples, block.stride);
  return true;
}

// MCUs [from, to) of the row.
template <bool kKeep>
bool read_mcus(const JpegMcuRow& row, int from, int to, JpegCursor& cursor, JpegTransform& transform) {
  for (int mcu = from; mcu < to; ++mcu) {
    if (cursor.restart_interval != 0 && cursor.until_restart-- == 0) {
      if (!cursor.at_interval_end()) return false;
      cursor.restart();
    }
    Bits in{cursor.bits, cursor.count, cursor.next};
    const uint8_t* const data = cursor.scan->data();
    for (int b = 0; b < row.block_count; ++b) {
      const JpegBlock& block = row.blocks[static_cast<size_t>(b)];
      int& dc = cursor.dc[static_cast<size_t>(block.component)];
      bool ok;
      if constexpr (kKeep) {
        ok = read_block(block, in, dc, data, block.samples + (mcu - row.first_kept) * block.step, transform);
      } else {
        ok = skip_block(block, in, dc, data);
      }
      if (!ok) return false;
    }
    cursor.bits = in.bits;
    cursor.count = in.count;
    cursor.next = in.next;
    if (cursor.past_interval_end()) return false;
  }
  return true;
}

bool read_row(const JpegMcuRow& row, JpegCursor& cursor) {
  JpegTransform transform;
  return read_mcus<false>(row, 0, row.first_kept, cursor, transform) &&
         read_mcus<true>(row, row.first_kept, row.kept_end, cursor, transform) &&
         read_mcus<false>(row, row.kept_end, row.mcus, cursor, transform) && transform.finish();
}

#endif

}  // namespace tessera::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::data {
namespace {
HWY_EXPORT(read_row);
}

void JpegQuantisation::set(const uint8_t* table, bool wide) {
  constexpr int kLimit = 8191;  // the sum of two such numbers is one of 16 bits
  for (size_t i = 0; i < 64; ++i) {
    const int step = wide ? table[2 * i] << 8 | table[2 * i + 1] : table[i];
    steps[kZigzag[i]] = static_cast<int16_t>(step);
    limits[kZigzag[i]] = static_cast<uint16_t>(step ? kLimit / step : 0);
  }
}

void JpegCursor::start(const JpegScan& data, int interval_mcus) {
  *this = {};
  scan = &data;
  restart_interval = until_restart = interval_mcus;
  next = data.data();
}

void JpegCursor::restart() {
  next = scan->data() + scan->ends()[interval++];
  bits = count = 0;
  dc = {};
  until_restart = restart_interval - 1;  // less the MCU that comes now
}

bool read_mcu_row(const JpegMcuRow& row, JpegCursor& cursor) { return HWY_DYNAMIC_DISPATCH(read_row)(row, cursor); }

}  // namespace tessera::data
#endif
