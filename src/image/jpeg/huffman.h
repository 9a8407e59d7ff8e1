#pragma once
// Huffman codes of a JPEG file as tables for quick decoding (ITU-T T.81, Annex F.2).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera::image {

// One DHT table. Codes stand at the top of a 64-bit number.
class JpegHuffman {
 public:
  static constexpr int kUnknown = 256;
  struct Code {
    int symbol = kUnknown;  // kUnknown when the bits are no code
    int length = 0;
  };

  // `table` is the 16 counts and the symbols as they stand in the file. False when the counts don't make a code.
  bool build(const uint8_t* table);
  bool is(const uint8_t* table) const;  // whether it was built of the same
  Code find(uint64_t bits) const;
  // By the first bits of the data, 2^log_size numbers: entry(code), and `none` where no code of so few bits stands.
  template <class Entry>
  void list(int log_size, Entry* entries, Entry none, Entry (*entry)(const Code&)) const;
  // The symbols that have codes.
  const uint8_t* begin() const { return table_.data() + 16; }
  const uint8_t* end() const { return begin() + count_; }

 private:
  std::array<uint8_t, 16 + 256> table_{};
  std::array<uint32_t, 17> limit_{};  // by length: the first 16 bits past its codes
  std::array<int, 17> offset_{};      // by length: its first symbol's index less its first code
  int count_ = 0;
  bool built_ = false;
};

template <class Entry>
void JpegHuffman::list(int log_size, Entry* entries, Entry none, Entry (*entry)(const Code&)) const {
  // Codes of one length, and then those of the next, are consecutive numbers.
  Entry* to = entries;
  const uint8_t* symbol = begin();
  for (int length = 1; length <= log_size; ++length) {
    for (int i = table_[static_cast<size_t>(length) - 1]; i > 0; --i) {
      to = std::fill_n(to, 1 << (log_size - length), entry({*symbol++, length}));
    }
  }
  std::fill(to, entries + (size_t{1} << log_size), none);
}

// What the next bits of the data mean for a DC coefficient: its code and then the bits of the difference.
struct JpegDcTable {
  static constexpr int kBits = 9;
  static constexpr int kMaxSize = 11;  // bits of a difference: more can't come from 8-bit samples

  // 0: a code that is longer or none. Else: bits in all; from bit 8 those of the code; from bit 16, 63 less those of the
  // difference.
  std::array<uint32_t, 1 << kBits> entries;
  JpegHuffman codes;

  static uint32_t entry(const JpegHuffman::Code& code);  // 0 for none, too
  // False when it is no table of DC codes. Does nothing if it was built of the same.
  bool build(const uint8_t* table);

 private:
  bool legal_ = false;
};

// The same for AC coefficients. An entry is one or two symbols. The first one's value is computed from the bits that follow its
// code, however many they are; the second one's is in the entry, and there is one where all its bits are known.
//   bits 0..7    length of all
//   bits 8..15   length of the first code
//   bits 16..23  63 less the number of bits of the first value
//   bits 24..31  how far the first symbol moves in the block: its zeros and one
//   bits 32..47  how far all move
//   bits 48..63  the second value, or zero
struct JpegAcTable {
  static constexpr int kBits = 11;
  static constexpr int kMaxSize = 10;

  // Moves that leave every block.
  static constexpr int kEndOfBlock = 128;
  static constexpr int kLongCode = 256;  // not in the table: ask `codes`
  static constexpr int kFarthest = kLongCode + 63;

  std::array<uint64_t, 1 << kBits> entries;
  JpegHuffman codes;

  static uint64_t entry(const JpegHuffman::Code& code);  // kLongCode for what is no code of an 8-bit JPEG
  bool build(const uint8_t* table);
  // For blocks that nobody wants: all symbols whose codes are in the index, whatever their values are.
  //   bits 0..7    length of all
  //   bits 8..     how far all move: up to 63, and kEndOfBlock more if the block ends then; or kLongCode
  // Null until a second file has this table: those that are made for one file are not worth the time.
  const uint32_t* skips() const { return skips_built_ ? skips_.data() : nullptr; }

 private:
  std::array<uint32_t, 1 << kBits> skips_;
  bool skips_built_ = false;
};

inline int jpeg_ac_first_move(uint64_t entry) { return static_cast<int>(entry >> 24 & 0xFF); }
inline int jpeg_ac_move(uint64_t entry) { return static_cast<int>(entry >> 32 & 0xFFFF); }
inline int jpeg_ac_skip_move(uint32_t entry) { return static_cast<int>(entry >> 8); }

}  // namespace tessera::image
