// Stands between a program and its files (LD_PRELOAD): counts calls, fails, delays, hangs or kills at one of them, and records
// what changes files, in order, so that campaign/power.py can tell what a disk may hold after a power cut.
//
// Environment; nothing is touched but files below TESSERA_IO_ROOTS:
//   TESSERA_IO_ROOTS    absolute directories, divided by ':'
//   TESSERA_IO_CLASSES  the calls that count: "w" (those that change files), "r" (the others), or "rw" (default)
//   TESSERA_IO_COUNTER  a file of 8 bytes that always holds how many have counted (native byte order)
//   TESSERA_IO_FAIL     "K ERRNO once|sticky": call number K (from 0) fails, or all from K on. A write of several bytes first
//                       writes half of them.
//   TESSERA_IO_FAILED   a file that gets the name of the first call that failed so, and of its file
//   TESSERA_IO_TRACE    a file to which each call that counts adds a line: its number, its name and its file
//   TESSERA_IO_KILL     K: the process is killed at call K; a write first writes half of its bytes
//   TESSERA_IO_HANG     K: call K never returns
//   TESSERA_IO_DELAY    microseconds that each call takes longer
//   TESSERA_IO_RECORD   a file; see put() for its format
//   TESSERA_IO_THREAD   "K once|sticky": the thread that is asked for after K others is refused, or all from that one on
// Calls that a libc makes for itself (in fread, say) are not seen, but those that open and close a stream are.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
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

// The system's own mmap: dlsym() may allocate, and an allocator maps.
void* map(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, protection, flags, fd, offset));
}

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
    if (std::sscanf(text_of("TESSERA_IO_THREAD").c_str(), "%lld %15s", &k, when) == 2) {
      thread_at = k;
      threads_sticky = std::strcmp(when, "sticky") == 0;
    }
    if (const std::string path = text_of("TESSERA_IO_COUNTER"); !path.empty()) share_counter(path);
    log = append_to(text_of("TESSERA_IO_RECORD"));
    trace = append_to(text_of("TESSERA_IO_TRACE"));
  }

  static int append_to(const std::string& path) {
    return path.empty() ? -1 : REAL(open)(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }

  void share_counter(const std::string& path) {
    const int fd = REAL(open)(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || REAL(ftruncate)(fd, sizeof(int64_t)) != 0) return;
    void* memory = map(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) count = static_cast<std::atomic<int64_t>*>(memory);
    REAL(close)(fd);
  }

  bool mine(std::string_view path) const {
    for (const std::string& root : roots) {
      if (path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/')) return true;
    }
    return false;
  }
  // A file that was opened by other means than open_file().
  void watch(int fd) {
    if (fd >= 0 && fd < kMaxFiles) watched[fd] = ++opened;
  }
  void forget(int fd) {
    if (fd >= 0 && fd < kMaxFiles) watched[fd] = 0;
  }
  bool mine(int fd) const { return fd >= 0 && fd < kMaxFiles && watched[fd].load(std::memory_order_relaxed) != 0; }

  std::vector<std::string> roots;
  bool reads = true, writes = true, sticky = false, threads_sticky = false;
  std::optional<int64_t> fail_at, kill_at, hang_at, thread_at;
  int64_t delay = 0;
  int error = EIO;
  int log = -1, trace = -1;
  std::mutex mutex;  // of calls that change files, when they are recorded
  std::atomic<int64_t> own_count{0};
  std::atomic<int64_t>* count = &own_count;
  std::atomic<int64_t> threads{0};
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

std::string file_of(const std::string& path) { return path; }
std::string file_of(int fd) {
  char path[PATH_MAX];
  const ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return {path, n < 0 ? 0 : static_cast<size_t>(n)};
}

void put_line(int out, const std::string& text) {
  const std::string line = text + "\n";
  if (REAL(write)(out, line.data(), line.size()) < 0) abort();
}

void tell(const char* call, const std::string& file) {
  static const std::string path = text_of("TESSERA_IO_FAILED");
  if (path.empty()) return;
  const int out = REAL(open)(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (out < 0) return;  // not the first
  put_line(out, std::string(call) + " " + file);
  REAL(close)(out);
}

// Whether this call on a path or a descriptor is to fail; where a process is to die or to hang it does so here. `partly` does half
// of a write, `call` is the name of the function that asks.
template <class File, class Partly>
bool fails(Kind kind, const File& file, Partly partly, const char* call) {
  Shim& s = shim();
  if (kind == Kind::kRead ? !s.reads : !s.writes) return false;
  const int64_t k = s.count->fetch_add(1);
  if (s.trace >= 0) put_line(s.trace, std::to_string(k) + " " + call + " " + file_of(file));
  if (s.delay > 0) usleep(static_cast<useconds_t>(s.delay));
  if (s.kill_at && k == *s.kill_at) {
    partly();
    raise(SIGKILL);
  }
  while (s.hang_at && k == *s.hang_at) pause();
  if (!s.fail_at || !(s.sticky ? k >= *s.fail_at : k == *s.fail_at)) return false;
  partly();
  tell(call, file_of(file));
  errno = s.error;
  return true;
}
template <class File>
bool fails(Kind kind, const File& file, const char* call = __builtin_FUNCTION()) {
  return fails(
      kind, file, [] {}, call);
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
int open_file(const std::string& path, int flags, Call call, const char* name = __builtin_FUNCTION()) {
  Shim& s = shim();
  if (!s.mine(path)) return call();
  const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0;
  if (fails(changes ? Kind::kWrite : Kind::kRead, path, name)) return -1;
  const auto watch = [&](int fd) {
    s.watch(fd);
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
  if (fails(Kind::kWrite, path, name)) return -1;
  return recorded(call, [&](int) { put({name, path, second, flag}); });
}

// A call that changes nothing.
template <class File, class Call>
auto look(const File& file, Call call, const char* name = __builtin_FUNCTION()) -> decltype(call()) {
  if (shim().mine(file) && fails(Kind::kRead, file, name)) return static_cast<decltype(call())>(-1);
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
  const bool failed = fails(Kind::kRead, fd);  // the descriptor is gone either way
  const int error = errno;
  shim().watched[fd] = 0;
  const int result = REAL(close)(fd);
  if (!failed) return result;
  errno = error;
  return -1;
}

ssize_t read(int fd, void* out, size_t size) {
  return look(fd, [&] { return REAL(read)(fd, out, size); });
}
ssize_t pread(int fd, void* out, size_t size, off_t offset) {
  return look(fd, [&] { return REAL(pread)(fd, out, size, offset); });
}
ssize_t pread64(int fd, void* out, size_t size, off64_t offset) {
  return look(fd, [&] { return REAL(pread64)(fd, out, size, offset); });
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
  if (fails(Kind::kWrite, fd, half, "write")) return -1;
  return recorded([&] { return REAL(write)(fd, bytes, size); }, put_write);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (!shim().mine(fd)) return REAL(pwrite)(fd, bytes, size, offset);
  if (fails(Kind::kWrite, fd)) return -1;
  return recorded([&] { return REAL(pwrite)(fd, bytes, size, offset); },
                  [&](ssize_t done) {
                    put({"write", id_of(fd), number(offset), {static_cast<const char*>(bytes), static_cast<size_t>(done)}});
                  });
}

int fsync(int fd) {
  if (!shim().mine(fd)) return REAL(fsync)(fd);
  if (fails(Kind::kWrite, fd)) return -1;
  return recorded([&] { return REAL(fsync)(fd); }, [&](int) { put({"sync", id_of(fd)}); });
}
int fdatasync(int fd) {
  if (!shim().mine(fd)) return REAL(fdatasync)(fd);
  if (fails(Kind::kWrite, fd)) return -1;
  return recorded([&] { return REAL(fdatasync)(fd); }, [&](int) { put({"sync", id_of(fd)}); });
}
int ftruncate(int fd, off_t size) {
  if (!shim().mine(fd)) return REAL(ftruncate)(fd, size);
  if (fails(Kind::kWrite, fd)) return -1;
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
int symlink(const char* target, const char* link) {
  return change(
      absolute(AT_FDCWD, link), "", "symlink", [&] { return REAL(symlink)(target, link); }, target);
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
int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  return change(absolute(from_directory, from), absolute(to_directory, to), "link",
                [&] { return REAL(linkat)(from_directory, from, to_directory, to, flags); });
}
int chmod(const char* path, mode_t mode) {
  return look(absolute(AT_FDCWD, path), [&] { return REAL(chmod)(path, mode); });
}
int fchmod(int fd, mode_t mode) {
  return look(fd, [&] { return REAL(fchmod)(fd, mode); });
}
int utimensat(int directory, const char* path, const struct timespec times[2], int flags) {
  return look(absolute(directory, path), [&] { return REAL(utimensat)(directory, path, times, flags); });
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
  const std::string full = absolute(AT_FDCWD, path);
  if (!shim().mine(full)) return REAL(opendir)(path);
  if (fails(Kind::kRead, full)) return nullptr;
  DIR* const directory = REAL(opendir)(path);
  if (directory) shim().watch(dirfd(directory));
  return directory;
}
DIR* fdopendir(int fd) {
  if (shim().mine(fd) && fails(Kind::kRead, fd)) return nullptr;
  return REAL(fdopendir)(fd);
}
dirent* readdir(DIR* directory) {
  if (const int fd = dirfd(directory); shim().mine(fd) && fails(Kind::kRead, fd)) return nullptr;
  return REAL(readdir)(directory);
}
int closedir(DIR* directory) {
  shim().forget(dirfd(directory));
  return REAL(closedir)(directory);
}

// Streams that read, such as std::ifstream.
FILE* fopen(const char* path, const char* mode) {
  const std::string full = absolute(AT_FDCWD, path);
  if (!shim().mine(full) || mode[0] != 'r') return REAL(fopen)(path, mode);
  if (fails(Kind::kRead, full)) return nullptr;
  FILE* const file = REAL(fopen)(path, mode);
  if (file) shim().watch(fileno(file));
  return file;
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
int fclose(FILE* file) {
  shim().forget(fileno(file));
  return REAL(fclose)(file);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) noexcept {
  Shim& s = shim();
  if (s.thread_at) {
    const int64_t k = s.threads.fetch_add(1);
    if (s.threads_sticky ? k >= *s.thread_at : k == *s.thread_at) return EAGAIN;
  }
  return REAL(pthread_create)(thread, attributes, start, argument);
}
void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  if (fd >= 0 && shim().mine(fd) && fails(Kind::kRead, fd)) return MAP_FAILED;
  return map(at, size, protection, flags, fd, offset);
}
int flock(int fd, int how) noexcept {
  return look(fd, [&] { return REAL(flock)(fd, how); });
}
int statvfs(const char* path, struct statvfs* out) noexcept {
  return look(absolute(AT_FDCWD, path), [&] { return REAL(statvfs)(path, out); });
}
int stat(const char* path, struct stat* out) {
  return look(absolute(AT_FDCWD, path), [&] { return REAL(stat)(path, out); });
}
int lstat(const char* path, struct stat* out) {
  return look(absolute(AT_FDCWD, path), [&] { return REAL(lstat)(path, out); });
}
int fstat(int fd, struct stat* out) {
  return look(fd, [&] { return REAL(fstat)(fd, out); });
}
int fstatat(int directory, const char* path, struct stat* out, int flags) {
  return look(absolute(directory, path), [&] { return REAL(fstatat)(directory, path, out, flags); });
}

}  // extern "C"
