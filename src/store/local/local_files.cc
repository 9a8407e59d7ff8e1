#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "base/printable.h"
#include "base/system/file_calls.h"
#include "store/file.h"
#include "store/local/file_kind.h"
#include "store/local/mapping.h"
#include "store/local/read_retries.h"
#include "store/url.h"

namespace tessera::store {
namespace {

// Small writes are gathered up to this size; larger ones go straight to the system.
constexpr size_t kBufferBytes = 256 << 10;

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, std::string_view action) : path_(path) {
    refuse_url(path);
    const FileCall call("opening", path);
    do {
      fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    } while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) fail(flags, action, path);
  }
  // Of what `name` is in the directory; `path` is for the message.
  Descriptor(const Descriptor& directory, const std::string& name, int flags, std::string_view action, const std::string& path)
      : path_(path) {
    const FileCall call("opening", path);
    do {
      fd_ = ::openat(directory.get(), name.c_str(), flags | O_CLOEXEC, 0666);
    } while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) fail(flags, action, path);
  }
  ~Descriptor() {
    if (fd_ >= 0) close();
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // What close() says; the descriptor is gone either way.
  int close() {
    const FileCall call("closing", path_);
    const int result = ::close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  // Directories are opened by those who write, who handle IoError.
  [[noreturn]] static void fail(int flags, std::string_view action, const std::string& path) {
    if ((flags & (O_ACCMODE | O_DIRECTORY)) == O_RDONLY) fail_reading(errno, action, path);
    throw IoError(errno, action, path);
  }

  const std::string path_;
  int fd_ = -1;
};

FileInfo describe(std::string name, const struct stat& status) {
  FileInfo info{std::move(name)};
  info.directory = S_ISDIR(status.st_mode);
  info.symlink = S_ISLNK(status.st_mode);
  info.size = S_ISREG(status.st_mode) ? status.st_size : 0;
  info.id = {status.st_dev, status.st_ino};
  return info;
}

// A pipe and a device have no size and no place to read at.
void expect_regular(const struct stat& status, const std::string& path) {
  if (S_ISREG(status.st_mode)) return;
  if (S_ISDIR(status.st_mode)) throw IoError(EISDIR, "open", path);
  throw data_error(fmt::format("`{}` is {}, not a regular file", one_line(path), file_kind(status.st_mode)), {},
                   "remove it, or put a regular file in its place");
}

class LocalReadable : public ReadableFile {
 public:
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  explicit LocalReadable(const std::string& path) : path_(path), fd_(path, O_RDONLY | O_NONBLOCK, "open") {
    const FileCall call("opening", path);
    struct stat status;
    if (fstat(fd_.get(), &status) != 0) throw IoError(errno, "open", path);
    expect_regular(status, path);
    size_ = status.st_size;
  }

  int64_t size() const override { return size_; }
  void prefetch(int64_t offset, int64_t length) const override {
    posix_fadvise(fd_.get(), offset, length, POSIX_FADV_WILLNEED);
  }

  void read(int64_t offset, std::span<std::byte> out) const override {
    ReadRetries retries;
    while (!out.empty()) {
      const FileCall call("reading", path_);
      const ssize_t n = pread(fd_.get(), out.data(), out.size(), offset);
      if (n < 0 && (errno == EINTR || retries.again(errno))) continue;
      if (n < 0) fail_reading(errno, "read", path_);
      if (n == 0)
        throw data_error(fmt::format("`{}` ends too early: {} more bytes are wanted at {}", path_, out.size(), offset));
      out = out.subspan(static_cast<size_t>(n));
      offset += n;
    }
  }

 private:
  std::string path_;
  Descriptor fd_;
  int64_t size_ = 0;
};

class LocalWritable : public WritableFile {
 public:
  LocalWritable(const std::string& path, int mode) : path_(path), fd_(path, O_WRONLY | O_CREAT | O_NOFOLLOW | mode, "create") {}
  // Of a new file `name` in the directory; `path` is for messages.
  LocalWritable(const Descriptor& directory, const std::string& name, const std::string& path)
      : path_(path), fd_(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, "create", path) {}

  void write(std::span<const std::byte> bytes) override {
    if (buffer_.size() + bytes.size() > kBufferBytes) flush();
    if (bytes.size() >= kBufferBytes) return write_through(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }

  void flush() override {
    const std::vector<std::byte> pending = std::move(buffer_);
    buffer_.clear();
    write_through(pending);
  }

  void sync() override {
    flush();
    const FileCall call("writing", path_);
    if (fsync(fd_.get()) != 0) throw IoError(errno, "write", path_);
  }

  void close() override {
    flush();
    if (fd_.close() != 0) throw IoError(errno, "write", path_);
  }

  FileInfo info() const override {
    const FileCall call("looking at", path_);
    struct stat status;
    if (fstat(fd_.get(), &status) != 0) throw IoError(errno, "read", path_);
    return describe({}, status);
  }

 private:
  void write_through(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const FileCall call("writing", path_);
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw IoError(errno, "write", path_);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }

  std::string path_;
  Descriptor fd_;
  std::vector<std::byte> buffer_;
};

void for_each_name(DIR* directory, const std::string& path, const std::function<void(const std::string&)>& visit) {
  errno = 0;
  while (const dirent* item = readdir(directory)) {
    const std::string name = item->d_name;
    if (name != "." && name != "..") visit(name);
    errno = 0;
  }
  if (errno != 0) throw IoError(errno, "list", path);
}

// Nothing when `path` does not exist; a dangling symbolic link is an empty file.
std::optional<FileInfo> stat_entry(const std::string& path, std::string name) {
  const FileCall call("looking for", path);
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw IoError(errno, "read", path);
  }
  FileInfo entry = describe(std::move(name), status);
  if (!entry.symlink || stat(path.c_str(), &status) != 0) return entry;
  entry = describe(std::move(entry.name), status);
  entry.symlink = true;
  return entry;
}

bool by_name(const FileInfo& a, const FileInfo& b) { return a.name < b.name; }

class LocalDirectory : public Directory {
 public:
  explicit LocalDirectory(const std::string& path) : path_(path), fd_(path, kFlags, "open the directory") {}

  FileId id() const override {
    const FileCall call("looking at", path_);
    struct stat status;
    if (fstat(fd_.get(), &status) != 0) throw IoError(errno, "read the directory", path_);
    return {status.st_dev, status.st_ino};
  }

  std::optional<FileInfo> info(const std::string& name) override {
    check(name);
    const FileCall call("looking into", path_);
    struct stat status;
    if (fstatat(fd_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return describe(name, status);
    if (errno == ENOENT) return std::nullopt;
    throw IoError(errno, "read", join_path(path_, name));
  }

  std::vector<FileInfo> list() override {
    const FileCall call("listing", path_);
    // Opened anew, since listing moves the place in it that copies of a descriptor share.
    const int fd = openat(fd_.get(), ".", kFlags | O_CLOEXEC);
    DIR* directory = fd < 0 ? nullptr : fdopendir(fd);
    if (!directory) {
      const int number = errno;
      if (fd >= 0) ::close(fd);
      throw IoError(number, "list", path_);
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> closer(directory, closedir);
    std::vector<FileInfo> entries;
    for_each_name(directory, path_, [&](const std::string& name) {
      if (auto entry = info(name)) entries.push_back(*std::move(entry));
    });
    std::sort(entries.begin(), entries.end(), by_name);
    return entries;
  }

  std::unique_ptr<Directory> open(const std::string& name) override {
    check(name);
    return std::unique_ptr<Directory>(new LocalDirectory(*this, name));
  }
  std::unique_ptr<WritableFile> create(const std::string& name) override {
    check(name);
    return std::make_unique<LocalWritable>(fd_, name, join_path(path_, name));
  }
  void make_directory(const std::string& name) override {
    check(name);
    const FileCall call("making directories in", path_);
    if (mkdirat(fd_.get(), name.c_str(), 0777) != 0) throw IoError(errno, "create the directory", join_path(path_, name));
  }
  void rename(const std::string& from, const std::string& to) override {
    check(from);
    check(to);
    const FileCall call("renaming files of", path_);
    if (renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) != 0) {
      throw IoError(errno, fmt::format("rename `{}` to", from), join_path(path_, to));
    }
  }
  void remove_file(const std::string& name) override { remove(name, 0, "remove"); }
  void remove_directory(const std::string& name) override { remove(name, AT_REMOVEDIR, "remove the directory"); }
  void sync() override {
    const FileCall call("writing the directory", path_);
    if (fsync(fd_.get()) != 0) throw IoError(errno, "write the directory", path_);
  }

 private:
  static constexpr int kFlags = O_RDONLY | O_DIRECTORY;

  LocalDirectory(const LocalDirectory& parent, const std::string& name)
      : path_(join_path(parent.path_, name)), fd_(parent.fd_, name, kFlags | O_NOFOLLOW, "open the directory", path_) {}

  static void check(const std::string& name) {
    TESSERA_CHECK(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos, "`{}`", name);
  }
  void remove(const std::string& name, int flags, std::string_view action) {
    check(name);
    const FileCall call("removing files of", path_);
    if (unlinkat(fd_.get(), name.c_str(), flags) != 0) throw IoError(errno, action, join_path(path_, name));
  }

  std::string path_;
  Descriptor fd_;
};

class LocalFiles : public FileSystem {
 public:
  std::optional<FileInfo> info(const std::string& path) override {
    refuse_url(path);
    const auto slash = path.rfind('/');
    return stat_entry(path, slash == std::string::npos ? path : path.substr(slash + 1));
  }

  std::vector<FileInfo> list(const std::string& path) override {
    refuse_url(path);
    const FileCall call("listing", path);
    DIR* directory = opendir(path.c_str());
    if (!directory) throw IoError(errno, "list", path);
    const std::unique_ptr<DIR, int (*)(DIR*)> closer(directory, closedir);
    std::vector<FileInfo> entries;
    for_each_name(directory, path, [&](const std::string& name) {
      if (auto entry = stat_entry(join_path(path, name), name)) entries.push_back(*std::move(entry));
    });
    std::sort(entries.begin(), entries.end(), by_name);
    return entries;
  }

  std::unique_ptr<ReadableFile> open(const std::string& path) override { return std::make_unique<LocalReadable>(path); }

  Bytes map(const std::string& path) override {
    const Descriptor fd(path, O_RDONLY | O_NONBLOCK, "open");
    const FileCall call("reading", path);
    struct stat status;
    if (fstat(fd.get(), &status) != 0) throw IoError(errno, "open", path);
    expect_regular(status, path);
    return map_descriptor(fd.get(), status.st_size, path);
  }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<LocalWritable>(path, O_TRUNC);
  }
  std::unique_ptr<WritableFile> append(const std::string& path) override {
    return std::make_unique<LocalWritable>(path, O_APPEND);
  }
  void truncate(const std::string& path, int64_t size) override {
    const Descriptor fd(path, O_WRONLY | O_NOFOLLOW, "shorten");
    const FileCall call("shortening", path);
    if (::ftruncate(fd.get(), size) != 0) throw IoError(errno, "shorten", path);
  }

  std::unique_ptr<Directory> open_directory(const std::string& path) override { return std::make_unique<LocalDirectory>(path); }
  void make_directories(const std::string& path) override {
    refuse_url(path);
    if (const auto entry = info(path)) {
      if (!entry->directory) throw IoError(ENOTDIR, "create the directory", path);
      return;
    }
    const std::string parent = parent_path(path);
    make_directories(parent);
    const FileCall call("making", path);
    if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) throw IoError(errno, "create the directory", path);
    sync_directory(parent);
  }

  void rename(const std::string& from, const std::string& to) override {
    const FileCall call("renaming", from);
    if (::rename(from.c_str(), to.c_str()) != 0) throw IoError(errno, fmt::format("rename `{}` to", from), to);
  }

  void exchange(const std::string& a, const std::string& b) override {
    const FileCall call("renaming", a);
    if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
    // Some network file systems cannot swap; there the two names are changed one after the other.
    if (errno != EINVAL && errno != ENOSYS) throw IoError(errno, fmt::format("swap `{}` with", a), b);
    const std::string aside = a + ".swap";
    rename(b, aside);
    rename(a, b);
    rename(aside, a);
  }

  void remove_file(const std::string& path) override {
    const FileCall call("removing", path);
    if (unlink(path.c_str()) != 0) throw IoError(errno, "remove", path);
  }
  void remove_directory(const std::string& path) override {
    const FileCall call("removing", path);
    if (rmdir(path.c_str()) != 0) throw IoError(errno, "remove the directory", path);
  }

  void sync_directory(const std::string& path) override {
    const Descriptor fd(path, O_RDONLY | O_DIRECTORY, "open the directory");
    const FileCall call("writing the directory", path);
    if (fsync(fd.get()) != 0) throw IoError(errno, "write the directory", path);
  }
};

}  // namespace

FileSystem& local_files() {
  static LocalFiles files;
  return files;
}

}  // namespace tessera::store
