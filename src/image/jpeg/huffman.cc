#include "image/jpeg/huffman.h"

#include <algorithm>
#include <numeric>

namespace tessera::image {
namespace {

constexpr uint64_t pack(int length, int code_length, int size, int first_move, int move, int second) {
  return static_cast<uint64_t>(length) | static_cast<uint64_t>(code_length) << 8 | static_cast<uint64_t>(63 - size) << 16 |
         static_cast<uint64_t>(first_move) << 24 | static_cast<uint64_t>(move) << 32 |
         static_cast<uint64_t>(static_cast<uint16_t>(second)) << 48;
}

constexpr uint64_t kUnlisted = pack(0, 0, 0, JpegAcTable::kEndOfBlock, JpegAcTable::kLongCode, 0);

int length_of(uint64_t entry) { return static_cast<int>(entry & 0xFF); }

// The number that `size` bits stand for: a leading 0 means negative.
int extend(uint64_t bits, int size) {
  const auto value = static_cast<int>(bits);
  return size > 0 && value < 1 << (size - 1) ? value - (1 << size) + 1 : value;
}

// The entry for two symbols, or that for the first if the second isn't wholly in `index`'s bits.
uint64_t join(uint64_t first, size_t index, const std::array<uint64_t, 1 << JpegAcTable::kBits>& singles) {
  constexpr int kBits = JpegAcTable::kBits;
  const int length = length_of(first);
  if (jpeg_ac_move(first) >= JpegAcTable::kEndOfBlock || length >= kBits) return first;
  const size_t rest = index << length & (singles.size() - 1);
  const uint64_t second = singles[rest];
  const int both = length + length_of(second);
  if (jpeg_ac_move(second) == JpegAcTable::kLongCode || both > kBits) return first;
  const int size = 63 - static_cast<int>(second >> 16 & 0xFF);
  const uint64_t value = (index >> (kBits - both)) & ((uint64_t{1} << size) - 1);
  const int move = jpeg_ac_move(first) + jpeg_ac_move(second);
  return (first & 0xFFFFFF00u) | static_cast<uint64_t>(both) | static_cast<uint64_t>(move) << 32 |
         static_cast<uint64_t>(static_cast<uint16_t>(extend(value, size))) << 48;
}

// The entry of skips() for bits that begin with `index`.
uint32_t skip(size_t index, const std::array<uint64_t, 1 << JpegAcTable::kBits>& singles) {
  constexpr int kBits = JpegAcTable::kBits, kMaxMove = 63;
  int length = 0, move = 0;
  while (length < kBits) {
    const uint64_t next = singles[index << length & (singles.size() - 1)];
    const int code_length = static_cast<int>(next >> 8 & 0xFF), more = jpeg_ac_move(next);
    if (more == JpegAcTable::kLongCode || length + code_length > kBits) break;
    if (more != JpegAcTable::kEndOfBlock && move + more > kMaxMove) break;
    length += length_of(next);
    move += more;
    if (more == JpegAcTable::kEndOfBlock) break;
  }
  if (length == 0) move = JpegAcTable::kLongCode;
  return static_cast<uint32_t>(length | move << 8);
}

}  // namespace

bool JpegHuffman::is(const uint8_t* table) const {
  return built_ && std::equal(table, table + 16, table_.begin()) && std::equal(begin(), end(), table + 16);
}

bool JpegHuffman::build(const uint8_t* table) {
  built_ = false;
  count_ = std::accumulate(table, table + 16, 0);
  std::copy_n(table, 16 + count_, table_.begin());
  uint32_t code = 0;
  int index = 0;
  for (int length = 1; length <= 16; ++length) {
    const auto i = static_cast<size_t>(length);
    offset_[i] = index - static_cast<int>(code);
    code += table_[i - 1];
    index += table_[i - 1];
    if (code >= 1u << length) return false;  // a code of all ones isn't allowed
    limit_[i] = code << (16 - length);
    code <<= 1;
  }
  return built_ = true;
}

JpegHuffman::Code JpegHuffman::find(uint64_t bits) const {
  const auto top = static_cast<uint32_t>(bits >> 48);
  for (int length = 1; length <= 16; ++length) {
    const auto i = static_cast<size_t>(length);
    if (top >= limit_[i]) continue;
    const int index = offset_[i] + static_cast<int>(top >> (16 - length));
    return {table_[16 + static_cast<size_t>(index)], length};
  }
  return {};
}

uint32_t JpegDcTable::entry(const JpegHuffman::Code& code) {
  if (code.symbol > kMaxSize) return 0;
  return static_cast<uint32_t>((code.length + code.symbol) | code.length << 8 | (63 - code.symbol) << 16);
}

bool JpegDcTable::build(const uint8_t* table) {
  if (codes.is(table)) return legal_;
  if (!codes.build(table)) return false;
  codes.list(kBits, entries.data(), uint32_t{0}, &entry);
  legal_ = std::all_of(codes.begin(), codes.end(), [](uint8_t symbol) { return symbol < 16; });
  return legal_;
}

uint64_t JpegAcTable::entry(const JpegHuffman::Code& code) {
  if (code.symbol == JpegHuffman::kUnknown) return kUnlisted;
  const int zeros = code.symbol >> 4, size = code.symbol & 15, n = code.length;
  if (size > kMaxSize) return kUnlisted;
  if (size > 0) return pack(n + size, n, size, zeros + 1, zeros + 1, 0);
  if (zeros == 15) return pack(n, n, 0, 16, 16, 0);
  return zeros == 0 ? pack(n, n, 0, kEndOfBlock, kEndOfBlock, 0) : kUnlisted;
}

bool JpegAcTable::build(const uint8_t* table) {
  const bool again = codes.is(table);
  if (again && skips_built_) return true;
  if (!again && !codes.build(table)) return false;
  std::array<uint64_t, 1 << kBits> singles;
  codes.list(kBits, singles.data(), kUnlisted, &entry);
  for (size_t i = 0; i < singles.size(); ++i) {
    if (again)
      skips_[i] = skip(i, singles);
    else
      entries[i] = join(singles[i], i, singles);
  }
  skips_built_ = again;
  return true;
}

}  // namespace tessera::image
