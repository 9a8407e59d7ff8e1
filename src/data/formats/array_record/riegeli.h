#pragma once
// The frame of Riegeli files: block headers and chunk headers; see array_record.h.

#include <cstdint>
#include <string>
#include <string_view>

#include "store/file.h"

namespace tessera::data {

inline constexpr int64_t kRiegeliBlock = 64 << 10, kRiegeliBlockHeader = 24;
inline constexpr size_t kRiegeliHeader = 40;
inline constexpr uint64_t kArrayRecordMagic = 0x71930e704fdae05e;

struct RiegeliHeader {
  uint64_t data_size = 0, data_hash = 0;
  char type = 0;
  uint64_t records = 0, decoded_size = 0;
};

uint64_t riegeli_hash(std::string_view bytes);
// From the first kRiegeliHeader of `bytes`; false when its hash is wrong.
bool parse_riegeli_header(std::string_view bytes, RiegeliHeader& header);
std::string riegeli_header(const RiegeliHeader& header);
// Of a block in which a chunk began `before` bytes back and ends `after` bytes on.
std::string riegeli_block_header(int64_t before, int64_t after);

// Where `size` bytes of chunks that begin at `begin` end, block headers counted.
int64_t riegeli_end(int64_t begin, int64_t size);
// The bytes in [begin, end) of the file without block headers. The file must have them.
std::string read_riegeli(const store::ReadableFile& file, int64_t begin, int64_t end);

}  // namespace tessera::data
