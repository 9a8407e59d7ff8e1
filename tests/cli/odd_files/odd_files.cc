// Preloaded into the program (LD_PRELOAD): reads of some files behave as on a disk that is in trouble, by their names.
//   …stuck.png, …stuck.tar   never comes; the file that ODD_FILES_STUCK names is made when somebody waits for it
//   …late.png                never comes once there is the file that ODD_FILES_AFTER names; where ODD_FILES_PROCESS is set, to the
//                            process of that TESSERA_PROCESS_ID alone
//   what ODD_FILES_SYNC is   a part of whose path: is never on the disk (fsync); the mark is made as above
//   what ODD_FILES_FULL is   a part of whose path: has no room on the disk (fsync)
//   …flaky.png               fails with EIO twice before it is read
// Where ODD_FILES_CLOCK is set, a minute passes at once by the clock of base/system/file_calls.h when somebody begins to wait.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace {

// Takes no memory: it is called wherever a file is read. The view is of `path`.
std::string_view path_of(int file, char (&path)[4096]) {
  char link[64];
  int length = 0;
  for (const char c : std::string_view("/proc/self/fd/")) link[length++] = c;
  char digits[16];
  int count = 0;
  for (int rest = file; rest > 0 || count == 0; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
  while (count > 0) link[length++] = digits[--count];
  link[length] = 0;
  const ssize_t size = readlink(link, path, sizeof path);
  return {path, size > 0 ? static_cast<size_t>(size) : 0};
}

bool is_of(int file, std::string_view end) {
  char path[4096];
  return path_of(file, path).ends_with(end);
}

bool has(int file, std::string_view part) {
  char path[4096];
  return path_of(file, path).find(part) != std::string_view::npos;
}

bool is_process_that_waits() {
  const char *wanted = std::getenv("ODD_FILES_PROCESS"), *own = std::getenv("TESSERA_PROCESS_ID");
  return wanted == nullptr || (own != nullptr && std::string_view(own) == wanted);
}

std::atomic<bool> waits{false};

[[noreturn]] void wait_for_ever() {
  waits = true;
  if (const char* mark = std::getenv("ODD_FILES_STUCK")) close(open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  for (;;) pause();
}

}  // namespace

extern "C" void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  if (file >= 0 && is_of(file, "stuck.png")) wait_for_ever();
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, protection, flags, file, offset));
}

extern "C" ssize_t pread(int file, void* to, size_t size, off_t offset) {
  if (is_of(file, "stuck.tar")) wait_for_ever();
  return syscall(SYS_pread64, file, to, size, offset);
}

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (clock == CLOCK_MONOTONIC_COARSE && waits && std::getenv("ODD_FILES_CLOCK")) now->tv_sec += 60;
  return result;
}

extern "C" int fsync(int file) {
  if (const char* part = std::getenv("ODD_FILES_SYNC"); part && has(file, part)) wait_for_ever();
  if (const char* part = std::getenv("ODD_FILES_FULL"); part && has(file, part)) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, file));
}

extern "C" ssize_t read(int file, void* to, size_t size) {
  using Read = ssize_t (*)(int, void*, size_t);
  static const auto next = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "read"));
  static std::atomic<int> flaky{2};
  if (is_of(file, "stuck.png")) wait_for_ever();
  const char* after = std::getenv("ODD_FILES_AFTER");
  if (after && is_of(file, "late.png") && access(after, F_OK) == 0 && is_process_that_waits()) wait_for_ever();
  if (is_of(file, "flaky.png") && flaky-- > 0) {
    errno = EIO;
    return -1;
  }
  return next(file, to, size);
}
