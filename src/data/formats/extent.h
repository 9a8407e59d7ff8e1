#pragma once
// Where a sample lies in the file that holds it.

#include <cstdint>
#include <string>

#include "store/file.h"

namespace tessera::data {

// The bytes of one sample in its shard.
struct Extent {
  int64_t offset = 0, length = 0;
  bool operator==(const Extent&) const = default;
};

// The most that is read at once: the bytes of one sample. Files may claim any number, and have it where they are sparse.
inline constexpr int64_t kMaxSampleBytes = int64_t{1} << 30;
// Throws a data Error for more.
void check_sample_bytes(int64_t bytes);

// Its bytes. Throws as check_sample_bytes() and the file do.
std::string read_extent(const store::ReadableFile& file, const Extent& extent);

}  // namespace tessera::data
