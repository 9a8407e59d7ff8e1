#pragma once
// One run a directory: a lock on `<directory>/.lock` that the operating system releases when the process ends, however it ends.

#include <string>
#include <utility>

#include "base/error.h"

namespace tessera::store {

// A usage Error: another process holds what only one may hold. It may end soon.
class InUse final : public Error {
 public:
  InUse(std::string what, std::string where, std::string help)
      : Error(Exit::kUsage, std::move(what), std::move(where), std::move(help)) {}
};

class DirectoryLock {
 public:
  // The directory must exist. Throws InUse, which names the holder (process and host), when another process has the lock.
  // Where the file system knows no locks, warns and goes on.
  explicit DirectoryLock(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Where `.lock` was removed or replaced since, so that others could lock it too, locks the new file and gives true. Throws as
  // the constructor does.
  bool renew();

 private:
  std::string directory_;
  int fd_ = -1;
};

}  // namespace tessera::store
