#pragma once
// Names for what is at a path in place of a regular file.

#include <sys/stat.h>

namespace tessera::store {

// "a named pipe"; of a regular file "a file".
inline const char* file_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "a file";
}

}  // namespace tessera::store
