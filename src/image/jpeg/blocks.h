#pragma once
// From the entropy-coded data of a JPEG to samples, a row of MCUs at a time: Huffman decoding, dequantisation and the inverse
// DCT. Two images are read in turns, a few coefficients of one and then of the other: each code has to wait for the length of
// the one before it, and a processor uses that time for the other image.

#include <array>
#include <cstdint>

#include "image/jpeg/huffman.h"
#include "image/jpeg/scan.h"

namespace tessera::image {

// A quantisation table in the order of rows. A coefficient up to its limit stays within 16 bits in the inverse DCT.
struct JpegQuantisation {
  alignas(32) std::array<int16_t, 64> steps;
  alignas(32) std::array<uint16_t, 64> limits;

  void set(const uint8_t* table, bool wide);  // 64 steps in zigzag order, of two bytes each when `wide`
};

// One of the blocks that make an MCU.
struct JpegBlock {
  int component = 0;
  const JpegDcTable* dc = nullptr;
  const JpegAcTable* ac = nullptr;
  int quantisation = 0;        // number of its table
  uint8_t* samples = nullptr;  // where those of the first MCU that is kept go
  ptrdiff_t stride = 0;        // bytes from a row of samples to the next
  ptrdiff_t step = 0;          // bytes from an MCU to the next
};

// Blocks with one quantisation table, until there are as many as a vector takes.
struct JpegWaiting {
  static constexpr size_t kMaxBlocks = 4;
  struct Target {
    uint8_t* samples;
    ptrdiff_t stride;
  };
  // By row, block and column; zeros where no coefficient is written yet. Behind them place for what belongs nowhere.
  alignas(64) std::array<int16_t, (64 + 8) * kMaxBlocks> coefficients{};
  // Of all blocks so far: non-zero, negative, or past their limit where a value was out of range.
  alignas(64) std::array<int16_t, 8 * kMaxBlocks> large_input{}, large_middle{}, large_output{};
  std::array<Target, kMaxBlocks> targets{};
  size_t count = 0;
  bool flat_ok = true;
};

struct JpegMcuRow {
  static constexpr int kMaxBlocks = 6;
  std::array<JpegBlock, kMaxBlocks> blocks;
  const JpegQuantisation* quantisation = nullptr;  // the four tables
  int block_count = 0;
  int mcus = 0;
  int first_kept = 0, kept_end = 0;  // the MCUs to make samples of
};

// Where reading stands in the data.
struct JpegCursor {
  const JpegScan* scan = nullptr;
  int restart_interval = 0;       // MCUs; 0 for none
  int until_restart = 0;          // MCUs
  size_t interval = 0;            // index of the one being read
  uint64_t bits = 0;              // the next ones, from the top
  uint64_t count = 0;             // how many of them are sure
  const uint8_t* next = nullptr;  // the byte that holds the first bit that isn't
  std::array<int, 3> dc{};        // the components' last DC coefficients

  // Stands at the beginning of a scan, which is borrowed.
  void start(const JpegScan& data, int interval_mcus);
  // Stands at the beginning of the next interval.
  void restart();
  // Bits read so far.
  size_t position() const { return static_cast<size_t>(next - scan->data()) * 8 - count; }
  // Whether all bytes of the interval are read.
  bool at_interval_end() const { return (position() + 7) / 8 == scan->ends()[interval]; }
};

// An image being read.
struct JpegStream {
  JpegMcuRow row;
  JpegCursor cursor;
  std::array<JpegWaiting, 4> waiting;  // by quantisation table

  // Where reading stands: before coefficient `k` + 1 of a block, or before the block.
  int mcu = 0, block = 0, k = 0;
  bool before_block = true;
  // Anything is: bits that are no code, coefficients past the end of a block or out of the range in which all of libjpeg's ways
  // to compute agree, data that ends early or late; or this machine has no vectors. The samples then mean nothing.
  bool unusual = false;

  // Stands at the beginning of a scan, as JpegCursor::start.
  void start(const JpegScan& data, int interval_mcus);
  bool row_done() const { return unusual || mcu == row.mcus; }
};

// Reads on in both until the row of one is done, or in the first alone when there is no other. Neither may be done before.
void read_mcus(JpegStream& first, JpegStream* second);

}  // namespace tessera::image
