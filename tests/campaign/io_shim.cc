// Stands between a program and its files (LD_PRELOAD): counts calls, fails, delays, hangs or kills at one of them, and records
// what changes files, in order, so that campaign/power.py can tell what a disk may hold after a power cut.
//
// Environment; nothing is touched but files below TESSERA_IO_ROOTS:
//   TESSERA_IO_ROOTS    absolute directories, divided by ':'
//   TESSERA_IO_CLASSES  the calls that count: "w" (those that change files), "r" (the others), or "rw" (default)
//   TESSERA_IO_COUNTER  a file of 8 bytes that always holds how many have counted (native byte order)
//   TESSERA_IO_FAIL     "K ERRNO once|sticky": call number K (from 0) fails, or all from K on. A write of several bytes first
//                       writes half of them.
//   TESSERA_IO_KILL     K: the process is killed at call K; a write first writes half of its bytes
//   TESSERA_IO_HANG     K: call K never returns
//   TESSERA_IO_DELAY    microseconds that each call takes longer
//   TESSERA_IO_RECORD   a file; see put() for its format
// Calls that a libc makes for itself (of fopen, say) are not seen.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
// The libc's own function, looked up once.
#define REAL(name)                                  \
  ([]() {                                           \
    static auto* const real = next(&::name, #name); \
    return real;                                    \
  }())

constexpr int kMaxFiles = 4096;
enum class Kind { kRead, kWrite };

std::string text_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}
std::optional<int64_t> number_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional(std::strtoll(value, nullptr, 10)) : std::nullopt;
}

struct Shim {
  Shim() {
    std::string rest = text_of("TESSERA_IO_ROOTS");
    while (!rest.empty()) {
      const auto end = rest.find(':');
      roots.push_back(rest.substr(0, end));
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    const std::string classes = text_of("TESSERA_IO_CLASSES");
    reads = classes.empty() || classes.find('r') != std::string::npos;
    writes = classes.empty() || classes.find('w') != std::string::npos;
    kill_at = number_of("TESSERA_IO_KILL");
    hang_at = number_of("TESSERA_IO_HANG");
    delay = number_of("TESSERA_IO_DELAY").value_or(0);
    char when[16] = "";
    long long k = 0;
    if (std::sscanf(text_of("TESSERA_IO_FAIL").c_str(), "%lld %d %15s", &k, &error, when) == 3) {
      fail_at = k;
      sticky = std::strcmp(when, "sticky") == 0;
    }
    if (const std::string path = text_of("TESSERA_IO_COUNTER"); !path.empty()) share_counter(path);
    if (const std::string path = text_of("TESSERA_IO_RECORD"); !path.empty()) {
      log = REAL(open)(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
  }

  void share_counter(const std::string& path) {
    const int fd = REAL(open)(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || REAL(ftruncate)(fd, sizeof(int64_t)) != 0) return;
    void* memory = mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) count = static_cast<std::atomic<int64_t>*>(memory);
    REAL(close)(fd);
  }

  bool mine(std::string_view path) const {
    for (const std::string& root : roots) {
      if (path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/')) return true;
    }
    return false;
  }
  bool mine(int fd) const { return fd >= 0 && fd < kMaxFiles && watched[fd].load(std::memory_order_relaxed) != 0; }

  std::vector<std::string> roots;
  bool reads = true, writes = true, sticky = false;
  std::optional<int64_t> fail_at, kill_at, hang_at;
  int64_t delay = 0;
  int error = EIO;
  int log = -1;
  std::mutex mutex;  // of calls that change files, when they are recorded
  std::atomic<int64_t> own_count{0};
  std::atomic<int64_t>* count = &own_count;
  std::atomic<int64_t> opened{0};
  std::atomic<int64_t> watched[kMaxFiles] = {};  // of each descriptor the number of its opening, from 1 on
};

Shim& shim() {
  static Shim* const one = new Shim;  // never destroyed: calls come until the very end
  return *one;
}

std::string absolute(int directory, const char* path) {
  if (path[0] == '/') return path;
  char base[PATH_MAX];
  if (directory == AT_FDCWD) {
    if (!getcwd(base, sizeof base)) return path;
  } else {
    const std::string link = "/proc/self/fd/" + std::to_string(directory);
    const ssize_t n = readlink(link.c_str(), base, sizeof base - 1);
    if (n < 0) return path;
    base[n] = 0;
  }
  return std::string(base) + "/" + path;
}

// Whether this call is to fail; where a process is to die or to hang it does so here. `partly` does half of a write.
template <class Partly>
bool fails(Kind kind, Partly partly) {
  Shim& s = shim();
  if (kind == Kind::kRead ? !s.reads : !s.writes) return false;
  const int64_t k = s.count->fetch_add(1);
  if (s.delay > 0) usleep(static_cast<useconds_t>(s.delay));
  if (s.kill_at && k == *s.kill_at) {
    partly();
    raise(SIGKILL);
  }
  while (s.hang_at && k == *s.hang_at) pause();
  if (!s.fail_at || !(s.sticky ? k >= *s.fail_at : k == *s.fail_at)) return false;
  partly();
  errno = s.error;
  return true;
}
bool fails(Kind kind) {
  return fails(kind, [] {});
}

// A record: the call's name and its arguments, each with a byte count before it ("5:write" …), then an end of line.
void put(std::initializer_list<std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += std::to_string(word.size()) + ":" + std::string(word);
  text += '\n';
  if (REAL(write)(shim().log, text.data(), text.size()) < 0) abort();
}

// Does a call that changes files and records it when it went well, so that the record has the order in which things happened.
template <class Call, class Words>
auto recorded(Call call, Words words) {
  Shim& s = shim();
  if (s.log < 0) return call();
  const std::lock_guard lock(s.mutex);
  const auto result = call();
  const int error = errno;
  if (result >= 0) words(result);
  errno = error;
  return result;
}

std::string number(int64_t value) { return std::to_string(value); }
std::string id_of(int fd) { return number(shim().watched[fd]); }

template <class Call>
int open_file(const std::string& path, int flags, Call call) {
  Shim& s = shim();
  if (!s.mine(path)) return call();
  const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0;
  if (fails(changes ? Kind::kWrite : Kind::kRead)) return -1;
  const auto watch = [&](int fd) {
    if (fd < kMaxFiles) s.watched[fd] = ++s.opened;
    if (s.log >= 0) {
      put({"open", id_of(fd), path, (flags & O_CREAT) ? "create" : "", (flags & O_TRUNC) ? "cut" : "",
           (flags & O_DIRECTORY) ? "directory" : ""});
    }
  };
  if (s.log < 0) {
    const int fd = call();
    if (fd >= 0) watch(fd);
    return fd;
  }
  return recorded(call, watch);
}

// A call that changes names.
template <class Call>
int change(const std::string& path, const std::string& second, const char* name, Call call, const std::string& flag = "") {
  if (!shim().mine(path) && (second.empty() || !shim().mine(second))) return call();
  if (fails(Kind::kWrite)) return -1;
  return recorded(call, [&](int) { put({name, path, second, flag}); });
}

template <class Call>
auto look(bool mine, Call call) -> decltype(call()) {
  if (mine && fails(Kind::kRead)) return static_cast<decltype(call())>(-1);
  return call();
}

}  // namespace

// Definitions in the place of the libc's; its headers say what they do.
extern "C" {

#define MODE(flags)                      \
  mode_t mode = 0;                       \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list arguments;                   \
    va_start(arguments, flags);          \
    mode = va_arg(arguments, mode_t);    \
    va_end(arguments);                   \
  }

int open(const char* path, int flags, ...) {
  MODE(flags)
  return open_file(absolute(AT_FDCWD, path), flags, [&] { return REAL(open)(path, flags, mode); });
}
int open64(const char* path, int flags, ...) {
  MODE(flags)
  return open_file(absolute(AT_FDCWD, path), flags, [&] { return REAL(open64)(path, flags, mode); });
}
int openat(int directory, const char* path, int flags, ...) {
  MODE(flags)
  return open_file(absolute(directory, path), flags, [&] { return REAL(openat)(directory, path, flags, mode); });
}
int openat64(int directory, const char* path, int flags, ...) {
  MODE(flags)
  return open_file(absolute(directory, path), flags, [&] { return REAL(openat64)(directory, path, flags, mode); });
}

int close(int fd) {
  if (!shim().mine(fd)) return REAL(close)(fd);
  const bool failed = fails(Kind::kRead);  // the descriptor is gone either way
  const int error = errno;
  shim().watched[fd] = 0;
  const int result = REAL(close)(fd);
  if (!failed) return result;
  errno = error;
  return -1;
}

ssize_t read(int fd, void* out, size_t size) {
  return look(shim().mine(fd), [&] { return REAL(read)(fd, out, size); });
}
ssize_t pread(int fd, void* out, size_t size, off_t offset) {
  return look(shim().mine(fd), [&] { return REAL(pread)(fd, out, size, offset); });
}
ssize_t pread64(int fd, void* out, size_t size, off64_t offset) {
  return look(shim().mine(fd), [&] { return REAL(pread64)(fd, out, size, offset); });
}

ssize_t write(int fd, const void* bytes, size_t size) {
  if (!shim().mine(fd)) return REAL(write)(fd, bytes, size);
  const auto put_write = [&](ssize_t done) {
    const off_t end = lseek(fd, 0, SEEK_CUR);  // after a write behind O_APPEND, too
    put({"write", id_of(fd), number(end - done), {static_cast<const char*>(bytes), static_cast<size_t>(done)}});
  };
  const auto half = [&] {
    if (size > 1) recorded([&] { return REAL(write)(fd, bytes, size / 2); }, put_write);
  };
  if (fails(Kind::kWrite, half)) return -1;
  return recorded([&] { return REAL(write)(fd, bytes, size); }, put_write);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (!shim().mine(fd)) return REAL(pwrite)(fd, bytes, size, offset);
  if (fails(Kind::kWrite)) return -1;
  return recorded([&] { return REAL(pwrite)(fd, bytes, size, offset); },
                  [&](ssize_t done) {
                    put({"write", id_of(fd), number(offset), {static_cast<const char*>(bytes), static_cast<size_t>(done)}});
                  });
}

int fsync(int fd) {
  if (!shim().mine(fd)) return REAL(fsync)(fd);
  if (fails(Kind::kWrite)) return -1;
  return recorded([&] { return REAL(fsync)(fd); }, [&](int) { put({"sync", id_of(fd)}); });
}
int fdatasync(int fd) {
  if (!shim().mine(fd)) return REAL(fdatasync)(fd);
  if (fails(Kind::kWrite)) return -1;
  return recorded([&] { return REAL(fdatasync)(fd); }, [&](int) { put({"sync", id_of(fd)}); });
}
int ftruncate(int fd, off_t size) {
  if (!shim().mine(fd)) return REAL(ftruncate)(fd, size);
  if (fails(Kind::kWrite)) return -1;
  return recorded([&] { return REAL(ftruncate)(fd, size); }, [&](int) { put({"ftruncate", id_of(fd), number(size)}); });
}
int truncate(const char* path, off_t size) {
  const std::string full = absolute(AT_FDCWD, path);
  return change(
      full, "", "truncate", [&] { return REAL(truncate)(path, size); }, number(size));
}

int rename(const char* from, const char* to) {
  return change(absolute(AT_FDCWD, from), absolute(AT_FDCWD, to), "rename", [&] { return REAL(rename)(from, to); });
}
int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  return change(absolute(from_directory, from), absolute(to_directory, to), "rename",
                [&] { return REAL(renameat)(from_directory, from, to_directory, to); });
}
int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  return change(
      absolute(from_directory, from), absolute(to_directory, to), "rename",
      [&] { return REAL(renameat2)(from_directory, from, to_directory, to, flags); },
      (flags & RENAME_EXCHANGE) ? "exchange" : "");
}
int link(const char* from, const char* to) {
  return change(absolute(AT_FDCWD, from), absolute(AT_FDCWD, to), "link", [&] { return REAL(link)(from, to); });
}
int unlink(const char* path) {
  return change(absolute(AT_FDCWD, path), "", "unlink", [&] { return REAL(unlink)(path); });
}
int unlinkat(int directory, const char* path, int flags) {
  return change(absolute(directory, path), "", "unlink", [&] { return REAL(unlinkat)(directory, path, flags); });
}
int rmdir(const char* path) {
  return change(absolute(AT_FDCWD, path), "", "unlink", [&] { return REAL(rmdir)(path); });
}
int remove(const char* path) {
  return change(absolute(AT_FDCWD, path), "", "unlink", [&] { return REAL(remove)(path); });
}
int mkdir(const char* path, mode_t mode) {
  return change(absolute(AT_FDCWD, path), "", "mkdir", [&] { return REAL(mkdir)(path, mode); });
}
int mkdirat(int directory, const char* path, mode_t mode) {
  return change(absolute(directory, path), "", "mkdir", [&] { return REAL(mkdirat)(directory, path, mode); });
}

DIR* opendir(const char* path) {
  if (shim().mine(absolute(AT_FDCWD, path)) && fails(Kind::kRead)) return nullptr;
  return REAL(opendir)(path);
}
DIR* fdopendir(int fd) {
  if (shim().mine(fd) && fails(Kind::kRead)) return nullptr;
  return REAL(fdopendir)(fd);
}
int stat(const char* path, struct stat* out) {
  return look(shim().mine(absolute(AT_FDCWD, path)), [&] { return REAL(stat)(path, out); });
}
int lstat(const char* path, struct stat* out) {
  return look(shim().mine(absolute(AT_FDCWD, path)), [&] { return REAL(lstat)(path, out); });
}
int fstat(int fd, struct stat* out) {
  return look(shim().mine(fd), [&] { return REAL(fstat)(fd, out); });
}
int fstatat(int directory, const char* path, struct stat* out, int flags) {
  return look(shim().mine(absolute(directory, path)), [&] { return REAL(fstatat)(directory, path, out, flags); });
}

}  // extern "C"
