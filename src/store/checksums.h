#pragma once
// Lists of SHA-256 checksums as `sha256sum` writes and `sha256sum -c` reads them: a line "<64 digits>  <name>" for each file.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "store/encoding/digest.h"
#include "store/file.h"

namespace tessera::store {

// The list of a directory's files, in it; of a single file, beside it: "weights.npz" -> "weights.npz.sha256".
inline constexpr std::string_view kChecksumList = "SHA256SUMS";
inline constexpr std::string_view kChecksumEnding = ".sha256";

// Reads the whole file.
Digest sha256_of(FileSystem& files, const std::string& path);

// The lines for these files of a directory, in the order given.
std::string checksum_lines(FileSystem& files, const std::string& directory, const std::vector<std::string>& names);

// Names and checksums (64 lower-case digits). Throws a data Error for a line that is neither a checksum nor empty nor a comment
// (#); `path` is for messages.
std::map<std::string, std::string> parse_checksums(std::string_view text, const std::string& path);

// Compares a file with its line in the list of its directory or beside it, where there is one. Throws a data Error where they
// do not fit.
void verify_checksum(FileSystem& files, const std::string& path);

}  // namespace tessera::store
