#include "store/local/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/log.h"
#include "base/system/file_calls.h"
#include "base/system/process.h"
#include "base/text/text.h"
#include "store/file.h"

namespace tessera::store {
namespace {

constexpr const char* kLockFile = ".lock";

std::string read_holder(int fd) {
  std::array<char, 256> text{};
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  const std::string_view holder = n > 0 ? trim(std::string_view(text.data(), static_cast<size_t>(n))) : std::string_view{};
  return holder.empty() ? "another process" : std::string(holder);
}

void write_holder(int fd) {
  const std::string text = fmt::format("process {} on {}\n", getpid(), host_name());
  // Only a help for messages: the lock holds without it, on a full disk too.
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

// The descriptor of the locked file.
int lock_directory(const std::string& directory) {
  const std::string path = join_path(directory, kLockFile);
  const FileCall call("locking", path);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0 && errno == ELOOP) {
    throw usage_error(fmt::format("`{}` is a symbolic link, and what it leads to would be overwritten", path), {},
                      "remove the link");
  }
  if (fd < 0) throw IoError(errno, "open", path);
  int result;
  do {
    result = flock(fd, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    write_holder(fd);
    return fd;
  }
  const int number = errno;
  if (number == EWOULDBLOCK) {
    const std::string holder = read_holder(fd);
    ::close(fd);
    throw InUse(fmt::format("`{}` is in use by {}", directory, holder), path,
                "wait for that run or stop it, or give this one another --workdir");
  }
  log_warning(fmt::format("{}; start only one run in this directory", IoError(number, "lock", path).message()));
  return fd;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory) : directory_(directory), fd_(lock_directory(directory)) {}

bool DirectoryLock::renew() {
  struct stat locked, there;
  const std::string path = join_path(directory_, kLockFile);
  const FileCall call("looking at", path);
  if (fstat(fd_, &locked) != 0) throw IoError(errno, "read", path);
  const bool found = lstat(path.c_str(), &there) == 0;
  if (!found && errno != ENOENT) throw IoError(errno, "read", path);
  if (found && locked.st_dev == there.st_dev && locked.st_ino == there.st_ino) return false;
  const int fd = lock_directory(directory_);
  ::close(fd_);
  fd_ = fd;
  return true;
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace tessera::store
