#pragma once
// Where a sample lies in the file that holds it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// The coded form of extents: for each, varints of the gap since the end of the one before and of its length.
std::string encode_extents(const std::vector<Extent>& extents);
// Takes `count` of them off the front; nothing when the bytes do not begin so.
std::optional<std::vector<Extent>> take_extents(std::string_view& bytes, int64_t count);

}  // namespace tessera::data
