#include "store/local/disk_room.h"

#include <filesystem>

namespace tessera::store {

int64_t bytes_below(FileSystem& files, const std::string& path) {
  int64_t bytes = 0;
  for (const FileInfo& entry : files.list(path)) {
    if (entry.symlink) continue;
    bytes += entry.directory ? bytes_below(files, join_path(path, entry.name))
                             : (entry.size + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
  }
  return bytes;
}

std::optional<int64_t> free_bytes(const std::string& dir) {
  std::filesystem::path path = std::filesystem::absolute(dir).lexically_normal();
  std::error_code error;
  std::filesystem::space_info space = std::filesystem::space(path, error);
  while (error == std::errc::no_such_file_or_directory && path != path.parent_path()) {
    path = path.parent_path();
    space = std::filesystem::space(path, error);
  }
  if (error || space.capacity == 0) return std::nullopt;
  return static_cast<int64_t>(space.available);
}

}  // namespace tessera::store
