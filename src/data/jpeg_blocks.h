#pragma once
// From the entropy-coded data of a JPEG to samples, a row of MCUs at a time: Huffman decoding, dequantisation and the inverse
// DCT.

#include <array>
#include <cstdint>

#include "data/jpeg_huffman.h"
#include "data/jpeg_scan.h"

namespace tessera::data {

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
  const JpegQuantisation* quantisation = nullptr;
  uint8_t* samples = nullptr;  // where those of the first MCU that is kept go
  ptrdiff_t stride = 0;        // bytes from a row of samples to the next
  ptrdiff_t step = 0;          // bytes from an MCU to the next
};

struct JpegMcuRow {
  static constexpr int kMaxBlocks = 6;
  std::array<JpegBlock, kMaxBlocks> blocks;
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
  // Whether all bytes of the interval are read, and whether more than those.
  bool at_interval_end() const { return (position() + 7) / 8 == scan->ends()[interval]; }
  bool past_interval_end() const { return position() > scan->ends()[interval] * 8; }
};

// False when anything is unusual: bits that are no code, coefficients past the end of a block or out of the range in which all
// of libjpeg's ways to compute agree, data that ends early or late; or when this machine has no vectors. The samples then mean
// nothing.
bool read_mcu_row(const JpegMcuRow& row, JpegCursor& cursor);

}  // namespace tessera::data
