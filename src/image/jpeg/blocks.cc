// Highway compiles this once for each instruction set, Huffman decoding too: that one is for shifts by any number of bits.

// SVE's lanes of ReorderDemote2To come in another order; NEON serves there.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/jpeg/blocks.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "image/jpeg/blocks.h"

#ifndef TESSERA_DATA_JPEG_BLOCKS_ONCE
#define TESSERA_DATA_JPEG_BLOCKS_ONCE
namespace tessera::image {
namespace {

constexpr std::array<uint8_t, 64> kZigzag = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                             12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                             35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                             58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

}  // namespace
}  // namespace tessera::image
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::image::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
}
HWY_AFTER_NAMESPACE();

#include "image/jpeg/idct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::image::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void read_streams(JpegStream& first, JpegStream* second) { (second ? second : &first)->unusual = true; }

#else

// Where in a block the coefficient of each number goes; the moves that leave the block end elsewhere.
struct Order {
  uint16_t at[JpegAcTable::kFarthest];
  constexpr Order() : at() {
    for (size_t k = 0; k < std::size(at); ++k) {
      at[k] = static_cast<uint16_t>(k < 64 ? JpegTransform::place(kZigzag[k] % 8, kZigzag[k] / 8) : JpegTransform::kElsewhere);
    }
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
  // Bits read so far.
  HWY_INLINE uint64_t position(const uint8_t* data) const { return static_cast<uint64_t>(next - data) * 8 - count; }
  // Goes back by `length` bits.
  HWY_INLINE void give_back(uint64_t length, const uint8_t* data) {
    const uint64_t position = this->position(data) - length;
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

// Reads MCUs of a stream up to `end`, whose samples are all wanted or not at all. What changes with every code it keeps in
// registers until save().
template <bool kKeep>
class Reader {
 public:
  HWY_INLINE Reader(JpegStream& stream, int end)
      : stream_(stream),
        end_(end),
        data_(stream.cursor.scan->data()),
        in_{stream.cursor.bits, stream.cursor.count, stream.cursor.next},
        k_(stream.k) {
    point();
  }

  HWY_INLINE bool begin() { return !stream_.before_block || begin_block(); }

  // Up to two table entries further; false at the end, or when something is unusual.
  HWY_INLINE bool step() {
    in_.refill();
    if constexpr (!kKeep) {
      if (skips_) {
        uint32_t skipped = pass_over();
        if (k_ < 63) {
          skipped = pass_over();
          if (k_ < 63) return true;
        }
        const bool at_end_code = k_ >= JpegAcTable::kEndOfBlock && k_ < JpegAcTable::kEndOfBlock + 63;
        if (k_ == 63 || at_end_code) return end_block() && begin_block();
        // Symbols of the next block, or a code that isn't in the table: by the other table.
        k_ -= jpeg_ac_skip_move(skipped);
        in_.give_back(skipped & 0xFF, data_);
      }
    }
    uint64_t entry = next_entry();
    take<kKeep>(entry, in_, k_, coefficients_);
    if (k_ < 63) {
      entry = next_entry();
      take<kKeep>(entry, in_, k_, coefficients_);
      if (k_ < 63) return true;
    }
    if (HWY_UNLIKELY(k_ >= JpegAcTable::kLongCode)) {
      k_ -= JpegAcTable::kLongCode;
      in_.refill();
      entry = JpegAcTable::entry(block().ac->codes.find(in_.bits));
      if (jpeg_ac_move(entry) == JpegAcTable::kLongCode) return give_up();
      take<kKeep>(entry, in_, k_, coefficients_);
      if (k_ < 63) return true;
    }
    if (!leave(entry, k_, in_, data_)) return give_up();
    if constexpr (kKeep) transform().add(samples(), block().stride);
    return end_block() && begin_block();
  }

  HWY_INLINE void save() {
    stream_.cursor.bits = in_.bits;
    stream_.cursor.count = in_.count;
    stream_.cursor.next = in_.next;
    stream_.k = k_;
  }

 private:
  HWY_INLINE const JpegBlock& block() const { return stream_.row.blocks[static_cast<size_t>(stream_.block)]; }
  HWY_INLINE uint8_t* samples() const { return block().samples + (stream_.mcu - stream_.row.first_kept) * block().step; }
  HWY_INLINE JpegTransform transform() const {
    const auto table = static_cast<size_t>(block().quantisation);
    return {stream_.waiting[table], stream_.row.quantisation[table]};
  }
  HWY_INLINE uint64_t next_entry() const { return entries_[in_.bits >> (64 - JpegAcTable::kBits)]; }
  // Takes an entry's symbols, which nobody wants.
  HWY_INLINE uint32_t pass_over() {
    const uint32_t entry = skips_[in_.bits >> (64 - JpegAcTable::kBits)];
    in_.skip(entry & 0xFF);
    k_ += jpeg_ac_skip_move(entry);
    return entry;
  }
  HWY_INLINE void point() {
    entries_ = block().ac->entries.data();
    if constexpr (kKeep)
      coefficients_ = transform().next();
    else
      skips_ = block().ac->skips();
  }
  HWY_INLINE bool give_up() {
    stream_.unusual = true;
    return false;
  }

  // Reads DC coefficients up to a block that has others.
  HWY_INLINE bool begin_block() {
    for (;;) {
      JpegCursor& cursor = stream_.cursor;
      if (stream_.block == 0 && cursor.restart_interval != 0 && !count_restart()) return give_up();
      in_.refill();
      int& dc = cursor.dc[static_cast<size_t>(block().component)];
      if (!read_dc(*block().dc, in_, dc)) return give_up();
      point();
      k_ = 0;
      stream_.before_block = false;
      if constexpr (!kKeep) return true;
      const uint64_t entry = next_entry();
      if (jpeg_ac_first_move(entry) != JpegAcTable::kEndOfBlock || jpeg_ac_move(entry) != JpegAcTable::kEndOfBlock) {
        coefficients_[0] = static_cast<int16_t>(dc);
        return true;
      }
      in_.skip(entry & 0xFF);
      transform().add_flat(dc, samples(), block().stride);
      if (!end_block()) return false;
    }
  }

  // To the next block; false where there is none.
  HWY_INLINE bool end_block() {
    stream_.before_block = true;
    if (++stream_.block < stream_.row.block_count) return true;
    stream_.block = 0;
    if (in_.position(data_) > stream_.cursor.scan->ends()[stream_.cursor.interval] * 8) return give_up();
    return ++stream_.mcu < end_;
  }

  HWY_INLINE bool count_restart() {
    if (stream_.cursor.until_restart-- != 0) return true;
    save();
    if (!stream_.cursor.at_interval_end()) return false;
    stream_.cursor.restart();
    in_ = {stream_.cursor.bits, stream_.cursor.count, stream_.cursor.next};
    return true;
  }

  JpegStream& stream_;
  const int end_;
  const uint8_t* const data_;
  Bits in_;
  int k_;  // the coefficient read last
  const uint64_t* entries_;
  int16_t* coefficients_ = nullptr;  // kept blocks have
  const uint32_t* skips_ = nullptr;  // others have, or null
};

// The MCUs that follow in the row and are all kept, or all not.
struct Stretch {
  bool kept;
  int end;
};
Stretch next_stretch(const JpegStream& stream) {
  const JpegMcuRow& row = stream.row;
  if (stream.mcu < row.first_kept) return {false, row.first_kept};
  if (stream.mcu < row.kept_end) return {true, row.kept_end};
  return {false, row.mcus};
}

template <bool kKeep>
void read_stretch(JpegStream& stream, int end) {
  Reader<kKeep> reader(stream, end);
  if (reader.begin()) {
    while (reader.step()) {
    }
  }
  reader.save();
}

// Until one of them is at its end.
template <bool kKeepFirst, bool kKeepSecond>
void read_stretches(JpegStream& first, int first_end, JpegStream& second, int second_end) {
  Reader<kKeepFirst> a(first, first_end);
  Reader<kKeepSecond> b(second, second_end);
  if (a.begin() && b.begin()) {
    while (a.step() && b.step()) {
    }
  }
  a.save();
  b.save();
}

void read_on(JpegStream& stream) {
  const Stretch stretch = next_stretch(stream);
  (stretch.kept ? read_stretch<true> : read_stretch<false>)(stream, stretch.end);
}

void read_on(JpegStream& first, JpegStream& second) {
  const Stretch a = next_stretch(first), b = next_stretch(second);
  const auto read = a.kept ? (b.kept ? read_stretches<true, true> : read_stretches<true, false>)
                           : (b.kept ? read_stretches<false, true> : read_stretches<false, false>);
  read(first, a.end, second, b.end);
}

// Makes what waits into samples, if the row is done.
void finish_row(JpegStream& stream) {
  if (stream.unusual || stream.mcu < stream.row.mcus) return;
  for (size_t table = 0; table < stream.waiting.size(); ++table) {
    if (!JpegTransform(stream.waiting[table], stream.row.quantisation[table]).finish()) stream.unusual = true;
  }
}

void read_streams(JpegStream& first, JpegStream* second) {
  while (!first.row_done() && !(second && second->row_done())) second ? read_on(first, *second) : read_on(first);
  finish_row(first);
  if (second) finish_row(*second);
}

#endif

}  // namespace tessera::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::image {
namespace {
HWY_EXPORT(read_streams);
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

void JpegStream::start(const JpegScan& data, int interval_mcus) {
  cursor.start(data, interval_mcus);
  waiting.fill({});
  mcu = block = k = 0;
  before_block = true;
  unusual = false;
}

void read_mcus(JpegStream& first, JpegStream* second) { HWY_DYNAMIC_DISPATCH(read_streams)(first, second); }

}  // namespace tessera::image
#endif
