#pragma once
// How much room files take on a disk, and how much it has.

#include <cstdint>
#include <optional>
#include <string>

#include "store/file.h"

namespace tessera::store {

constexpr int64_t kDiskBlock = 4096;  // bytes, of most file systems: files take whole blocks

// Bytes that the files below a directory take, in whole blocks. Symbolic links are not followed.
int64_t bytes_below(FileSystem& files, const std::string& path);
// Bytes that this user may still write to the file system of `dir`, or of the nearest directory above it that exists. Nothing
// where the file system does not say.
std::optional<int64_t> free_bytes(const std::string& dir);

}  // namespace tessera::store
