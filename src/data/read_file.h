#pragma once
// A file of one image.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "image/image.h"
#include "store/servers/buckets.h"

namespace tessera::data {

// No picture that is decoded is in a larger file: a hole of terabytes is refused before memory is taken.
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// Where a path is wanted: what comes from stdin.
inline constexpr std::string_view kStdin = "-";

// The whole file, in `buffer`. A reason when it cannot be read, is larger than kMaxFileBytes or is no regular file: pipes and
// devices are not waited for. What a disk may manage at another try is tried again (store::ReadRetries). What the system has no
// more of is no reason, but thrown (store::expect_not_exhausted). `listed`: what a listing told of an object, or null.
[[nodiscard]] std::optional<std::string> read_whole_file(const std::string& path, PaddedBuffer& buffer,
                                                         const store::ListedObject* listed = nullptr);

// What comes from stdin until its end, with the same limit. It can be read once.
[[nodiscard]] std::optional<std::string> read_stdin(PaddedBuffer& buffer);

// Asks the system to read the file ahead; may wait for its directories. Of an object, waits until all of it is here.
void fetch_file(const std::string& path, const store::ListedObject* listed = nullptr);

}  // namespace tessera::data
