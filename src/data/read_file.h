#pragma once
// Reads files of one image each.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "image/image.h"
#include "store/servers/buckets.h"

namespace tessera::data {

// No picture that is decoded is in a larger file: a hole of terabytes is refused before memory is taken.
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

// In place of a path: stdin.
inline constexpr std::string_view kStdin = "-";

// Reads the whole file into `buffer`. Gives a reason where it cannot be read, is larger than kMaxFileBytes or is no regular
// file: it does not wait for pipes and devices. A read that may succeed later is tried again (store::ReadRetries). Throws where
// the system has no more memory or open files (store::expect_not_exhausted). `listed`: what a listing said about an object, or
// null.
[[nodiscard]] std::optional<std::string> read_whole_file(const std::string& path, PaddedBuffer& buffer,
                                                         const store::ListedObject* listed = nullptr);

// What comes from stdin until its end, with the same limit. It can be read once.
[[nodiscard]] std::optional<std::string> read_stdin(PaddedBuffer& buffer);

// Asks the system to read the file ahead; may wait for its directories. Of an object, waits until all of it is here.
void fetch_file(const std::string& path, const store::ListedObject* listed = nullptr);

}  // namespace tessera::data
