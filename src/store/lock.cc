#include "store/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "store/file.h"

namespace tessera::store {
namespace {

std::string read_holder(int fd) {
  std::array<char, 256> text{};
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  const std::string_view holder = n > 0 ? trim(std::string_view(text.data(), static_cast<size_t>(n))) : std::string_view{};
  return holder.empty() ? "another process" : std::string(holder);
}

void write_holder(int fd) {
  std::array<char, 128> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string text = fmt::format("process {} on {}\n", getpid(), host.data());
  // Only a help for messages: the lock holds without it, on a full disk too.
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory) {
  const std::string path = join_path(directory, ".lock");
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0 && errno == ELOOP) {
    throw usage_error(fmt::format("`{}` is a symbolic link, and what it leads to would be overwritten", path), {},
                      "remove the link");
  }
  if (fd_ < 0) throw IoError(errno, "open", path);
  int result;
  do {
    result = flock(fd_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    write_holder(fd_);
    return;
  }
  const int number = errno;
  if (number == EWOULDBLOCK) {
    const std::string holder = read_holder(fd_);
    ::close(fd_);
    throw usage_error(fmt::format("`{}` is in use by {}", directory, holder), path,
                      "wait for that run or stop it, or give this one another --workdir");
  }
  log_warning(fmt::format("{}; start only one run in this directory", IoError(number, "lock", path).message()));
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace tessera::store
