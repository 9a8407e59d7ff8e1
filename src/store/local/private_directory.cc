#include "store/local/private_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/system/environment.h"
#include "store/encoding/digest.h"
#include "store/file.h"
#include "store/local/mapping.h"

namespace tessera::store {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH, kOthers = S_IRWXG | S_IRWXO;
constexpr size_t kKeyBytes = 32;
constexpr const char* kKeyFile = "seal.key";

Error owned_by_another(const std::string& path, uid_t owner, std::string help) {
  return data_error(fmt::format("`{}` belongs to user {}, and this program runs as user {}", path, owner, geteuid()), {},
                    std::move(help));
}

int open_retrying(int directory, const std::string& name, int flags) {
  int descriptor = -1;
  do {
    descriptor = openat(directory, name.c_str(), flags | O_CLOEXEC, 0600);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

void refuse_other_users_home(const std::string& path) {
  const std::string home = environment_variable("HOME");
  struct stat status;
  if (geteuid() != 0 || home.empty() || !path.starts_with(home + "/") || stat(home.c_str(), &status) != 0) return;
  if (status.st_uid != geteuid()) throw owned_by_another(home, status.st_uid, "set HOME to your own (sudo -H)");
}

void make_private_directories(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) return;
  make_private_directories(parent_path(path));
  if (mkdir(path.c_str(), 0700) == 0) {
    chmod(path.c_str(), 0700);  // the umask may have taken from it; what comes of it is looked at where it is opened
  } else if (errno != EEXIST) {
    throw IoError(errno, "create the directory", path);
  }
}

void write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(errno, "write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

// An opened file that was found to be this user's own.
struct PrivateDirectory::File {
  std::shared_ptr<const int> descriptor;
  int64_t size = 0;
};

namespace {

std::shared_ptr<const int> owned(int descriptor) {
  return {new int(descriptor), [](const int* d) {
            ::close(*d);
            delete d;
          }};
}

}  // namespace

PrivateDirectory::PrivateDirectory(std::string path, int descriptor) : path_(std::move(path)), descriptor_(owned(descriptor)) {}

std::string PrivateDirectory::path_of(const std::string& name) const { return join_path(path_, name); }

std::optional<PrivateDirectory> PrivateDirectory::find(const std::string& path) {
  const int descriptor = open_retrying(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0 && (errno == ENOENT)) return std::nullopt;
  if (descriptor < 0) throw IoError(errno, "open the directory", path);
  PrivateDirectory directory(path, descriptor);
  struct stat status;
  if (fstat(descriptor, &status) != 0) throw IoError(errno, "open the directory", path);
  if (status.st_uid != geteuid()) throw owned_by_another(path, status.st_uid, "name a directory of your own");
  if (status.st_mode & kOthersWrite) {
    throw data_error(fmt::format("others may write to `{}` (mode {:04o})", path, status.st_mode & 07777), {},
                     fmt::format("name a directory of your own, or: chmod 700 {}", path));
  }
  return directory;
}

PrivateDirectory PrivateDirectory::make(const std::string& path) {
  if (auto there = find(path)) return *std::move(there);
  refuse_other_users_home(path);
  make_private_directories(path);
  auto made = find(path);
  if (!made) throw IoError(ENOENT, "open the directory", path);
  return *std::move(made);
}

std::optional<PrivateDirectory::File> PrivateDirectory::open_file(const std::string& name, mode_t refused) const {
  // O_NONBLOCK: a FIFO in the file's place is not waited for.
  const int descriptor = open_retrying(*descriptor_, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0 && errno == ENOENT) return std::nullopt;
  if (descriptor < 0) throw IoError(errno, "open", path_of(name));
  File file{owned(descriptor)};
  struct stat status;
  if (fstat(descriptor, &status) != 0) throw IoError(errno, "open", path_of(name));
  if (!S_ISREG(status.st_mode)) throw IoError(EINVAL, "open", path_of(name));
  if (status.st_uid != geteuid()) throw owned_by_another(path_of(name), status.st_uid, "remove it");
  if (status.st_mode & refused) {
    const char* what = refused == kOthersWrite ? "write to" : "read";
    throw data_error(fmt::format("others may {} `{}` (mode {:04o})", what, path_of(name), status.st_mode & 07777), {},
                     "remove it");
  }
  file.size = status.st_size;
  return file;
}

std::optional<std::string> PrivateDirectory::read(const std::string& name) const { return read_file(name, kOthersWrite); }
std::optional<std::string> PrivateDirectory::read_secret(const std::string& name) const { return read_file(name, kOthers); }

std::optional<std::string> PrivateDirectory::read_file(const std::string& name, mode_t refused) const {
  const auto file = open_file(name, refused);
  if (!file) return std::nullopt;
  std::string text(static_cast<size_t>(file->size), '\0');
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = pread(*file->descriptor, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw IoError(n < 0 ? errno : EIO, "read", path_of(name));
    done += static_cast<size_t>(n);
  }
  return text;
}

std::shared_ptr<const void> PrivateDirectory::lock(const std::string& name, std::chrono::milliseconds patience,
                                                   bool& waited) const {
  constexpr std::chrono::milliseconds kPoll{20};
  for (const auto end = std::chrono::steady_clock::now() + patience;;) {
    const int descriptor = open_retrying(*descriptor_, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) return nullptr;
    const auto file = owned(descriptor);
    int failed = 0;
    while ((failed = flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno) == EWOULDBLOCK) {
      waited = true;
      if (std::chrono::steady_clock::now() >= end) return nullptr;
      std::this_thread::sleep_for(kPoll);
    }
    if (failed == EINTR) continue;
    if (failed != 0) return nullptr;
    struct stat held;
    // The holder before removed the file: whoever comes next would lock another one.
    if (fstat(descriptor, &held) != 0 || held.st_nlink == 0) continue;
    // Removed first, then unlocked.
    return {file.get(), [file, name, directory = descriptor_](const void*) { unlinkat(*directory, name.c_str(), 0); }};
  }
}

std::optional<Bytes> PrivateDirectory::map(const std::string& name) const {
  const auto file = open_file(name, kOthersWrite);
  if (!file) return std::nullopt;
  return map_descriptor(*file->descriptor, file->size, path_of(name));
}

std::string PrivateDirectory::write_temporary(const std::string& name, const std::vector<std::string_view>& parts) const {
  static std::atomic<uint64_t> count{0};
  std::string temporary = fmt::format("{}.tmp-{}-{}", name, getpid(), count++);
  unlinkat(*descriptor_, temporary.c_str(), 0);  // of a killed process that had this number
  const int descriptor = open_retrying(*descriptor_, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  if (descriptor < 0) throw IoError(errno, "create", path_of(temporary));
  const auto closer = owned(descriptor);
  try {
    fchmod(descriptor, 0600);  // the umask may have taken from it
    for (const std::string_view part : parts) write_all(descriptor, part, path_of(temporary));
    if (fsync(descriptor) != 0) throw IoError(errno, "write", path_of(temporary));
  } catch (const Error&) {
    remove(temporary);
    throw;
  }
  return temporary;
}

void PrivateDirectory::write(const std::string& name, const std::vector<std::string_view>& parts) const {
  const std::string temporary = write_temporary(name, parts);
  if (renameat(*descriptor_, temporary.c_str(), *descriptor_, name.c_str()) == 0) return;
  const int number = errno;
  remove(temporary);
  throw IoError(number, "write", path_of(name));
}

void PrivateDirectory::write(const std::string& name, std::initializer_list<std::string_view> parts) const {
  write(name, std::vector<std::string_view>(parts));
}

bool PrivateDirectory::write_new(const std::string& name, std::string_view content) const {
  const std::string temporary = write_temporary(name, {content});
  const int failed = linkat(*descriptor_, temporary.c_str(), *descriptor_, name.c_str(), 0) == 0 ? 0 : errno;
  remove(temporary);
  if (failed != 0 && failed != EEXIST) throw IoError(failed, "create", path_of(name));
  return failed == 0;
}

std::vector<PrivateDirectory::Entry> PrivateDirectory::list() const {
  const int again = open_retrying(*descriptor_, ".", O_RDONLY | O_DIRECTORY);
  DIR* directory = again < 0 ? nullptr : fdopendir(again);
  if (directory == nullptr) throw IoError(errno, "list", path_);
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(directory, closedir);
  std::vector<Entry> entries;
  while (const dirent* item = readdir(directory)) {
    struct stat status;
    if (fstatat(*descriptor_, item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) continue;
    entries.push_back({item->d_name, status.st_size, status.st_mtim});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

void PrivateDirectory::touch(const std::string& name) const {
  utimensat(*descriptor_, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

bool PrivateDirectory::remove(const std::string& name) const { return unlinkat(*descriptor_, name.c_str(), 0) == 0; }

std::string user_key() {
  std::string base = environment_variable("XDG_CONFIG_HOME");
  if (base.empty()) {
    const std::string home = environment_variable("HOME");
    if (home.empty()) throw data_error("there is no place for this user's key", {}, "set HOME or XDG_CONFIG_HOME");
    base = join_path(home, ".config");
  }
  const PrivateDirectory directory = PrivateDirectory::make(join_path(base, "tessera"));
  auto key = directory.read_secret(kKeyFile);
  if (!key) {
    std::string fresh(kKeyBytes, '\0');
    fill_random(std::as_writable_bytes(std::span(fresh)));
    directory.write_new(kKeyFile, fresh);
    key = directory.read_secret(kKeyFile);  // another process may have been first
  }
  if (!key || key->size() != kKeyBytes) {
    throw data_error(fmt::format("`{}` is not a key of {} bytes", join_path(directory.path(), kKeyFile), kKeyBytes), {},
                     "remove it: a new one is made");
  }
  return *std::move(key);
}

}  // namespace tessera::store
