#include "data/index/listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "data/index/shard_names.h"
#include "store/file.h"
#include "store/local/file_kind.h"
#include "store/servers/buckets.h"
#include "store/url.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

EntryKind kind_of(int directory, const dirent& entry) {
  if (entry.d_type == DT_DIR) return EntryKind::kDirectory;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return EntryKind::kFile;
  struct stat own {
  }, target{};
  const bool known = fstatat(directory, entry.d_name, &own, AT_SYMLINK_NOFOLLOW) == 0;
  if (known && S_ISDIR(own.st_mode)) return EntryKind::kDirectory;
  const bool link = known && S_ISLNK(own.st_mode) && fstatat(directory, entry.d_name, &target, 0) == 0;
  return link && S_ISDIR(target.st_mode) ? EntryKind::kDirectoryLink : EntryKind::kFile;
}

bool has_wildcard(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

// Opening a pipe would wait for its writer. Reading a device may never end. A folder passes here: reading it fails with a
// message of its own.
void check_kind(const std::string& path, mode_t mode, const std::string& where) {
  if (S_ISREG(mode) || S_ISDIR(mode)) return;
  throw data_error(fmt::format("`{}` is {}, not a file", path, store::file_kind(mode)), where, "leave it out, or remove it");
}

void add_matches(const std::string& pattern, std::vector<std::string>& paths, const std::string& where) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  const std::unique_ptr<glob_t, void (*)(glob_t*)> cleanup(&found, globfree);
  if (result == GLOB_NOMATCH || (result == 0 && found.gl_pathc == 0)) {
    throw data_error(fmt::format("no file matches `{}`", pattern), where,
                     fmt::format("relative paths start from the working directory, {}", fs::current_path().string()));
  }
  if (result != 0)
    throw data_error(fmt::format("cannot list `{}`: {}", pattern, std::generic_category().message(errno)), where);
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    struct stat info {};
    if (stat(found.gl_pathv[i], &info) == 0) check_kind(found.gl_pathv[i], info.st_mode, where);
  }
  paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
}

void add_file(const std::string& path, std::vector<std::string>& paths, const std::string& where) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const std::string help =
        errno == ENOENT ? fmt::format("relative paths start from the working directory, {}", fs::current_path().string())
                        : std::string();
    throw data_error(fmt::format("cannot read `{}`: {}", path, std::generic_category().message(errno)), where, help);
  }
  if (S_ISDIR(info.st_mode)) {
    throw data_error(fmt::format("`{}` is a folder, not a file", path), where, fmt::format("name the files in it: {}/*", path));
  }
  check_kind(path, info.st_mode, where);
  paths.push_back(path);
}

// The objects that a pattern names, from a listing of the folder above its first wildcard; one that has no wildcard is looked for
// when it is opened.
void add_objects(const std::string& pattern, std::vector<std::string>& paths, const std::string& where) {
  const bool in_query = pattern.starts_with("http") && pattern.find('*') == std::string::npos;  // "?" begins a query there
  if (in_query || !has_wildcard(pattern)) {
    paths.push_back(pattern);
    return;
  }
  const std::string folder = pattern.substr(0, pattern.rfind('/', pattern.find_first_of("*?[")));
  if (folder.ends_with('/'))
    throw data_error(fmt::format("`{}` has a wildcard in the bucket's name", pattern), where, "name the bucket");
  const size_t before = paths.size();
  store::list_objects(folder, [&](const std::string& name, const store::ListedObject&) {
    std::string path = store::join_path(folder, name);
    if (::fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) paths.push_back(std::move(path));
  });
  if (paths.size() == before) throw data_error(fmt::format("no object matches `{}`", pattern), where);
}

}  // namespace

void list_directory(const std::string& path, const std::function<void(std::string_view, EntryKind)>& visit) {
  if (store::is_remote(path)) {
    for (const store::FileInfo& entry : store::files_at(path).list(path)) {
      if (!entry.name.starts_with('.')) visit(entry.name, entry.directory ? EntryKind::kDirectory : EntryKind::kFile);
    }
    return;
  }
  DIR* directory = opendir(path.c_str());
  if (!directory) store::fail_reading(errno, "list", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(directory, closedir);
  errno = 0;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') visit(entry->d_name, kind_of(dirfd(directory), *entry));
    errno = 0;
  }
  if (errno != 0) throw store::IoError(errno, "list", path);
}

int64_t object_version(uint64_t tag) { return -1 - static_cast<int64_t>(tag >> 1); }

FileStamp stamp_of(const std::string& path) {
  if (store::is_remote(path)) {
    const store::ObjectStamp stamp = store::object_stamp(path);
    return {stamp.size, object_version(stamp.tag)};
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) throw store::IoError(errno, "read", path);
  return {info.st_size, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

bool too_fresh(int64_t mtime, int64_t began) {
  constexpr int64_t kSecond = 1'000'000'000;
  return mtime > began - kSecond;
}

int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<uint64_t> stamp_number(const FileStamp& stamp) {
  if (too_fresh(stamp.mtime, now_nanoseconds())) return std::nullopt;
  return hash128({reinterpret_cast<const char*>(&stamp), sizeof stamp}).low;
}

std::optional<uint64_t> stamp_number(const std::string& path) {
  try {
    return stamp_number(stamp_of(path));
  } catch (const Error&) {
    return std::nullopt;
  }
}

Hash128 fingerprint_files(int64_t count, const std::function<std::string(int64_t)>& path) {
  constexpr int64_t kGrain = 1024;
  const int64_t parts = (count + kGrain - 1) / kGrain;
  std::vector<std::string> hashes(static_cast<size_t>(parts));
  parallel_for(parts, thread_count(0, parts), [&](int64_t part, int) {
    Hasher hasher;
    for (int64_t i = part * kGrain; i < std::min(count, (part + 1) * kGrain); ++i) {
      const std::string name = path(i);
      FileStamp stamp{-1, -1};
      try {
        stamp = stamp_of(name);
      } catch (const Error&) {
        // It is not there, which is said by a stamp that no file has.
      }
      hasher.add(name).add({reinterpret_cast<const char*>(&stamp), sizeof stamp});
    }
    hashes[static_cast<size_t>(part)] = to_string(hasher.finish());
  });
  Hasher all;
  for (const std::string& hash : hashes) all.add(hash);
  return all.finish();
}

std::vector<std::string> find_shards(const std::string& pattern, const std::string& where) {
  std::vector<std::string> paths;
  for (const std::string& one : expand_braces(pattern)) {
    if (store::is_remote(one)) {
      add_objects(one, paths, where);
      continue;
    }
    if (store::is_url(one)) {
      throw usage_error(fmt::format("`{}` is no address that data can be read from", one), where,
                        "s3://, gs:// and az:// buckets, hf://datasets/OWNER/NAME/PATH and https:// are read");
    }
    has_wildcard(one) ? add_matches(one, paths, where) : add_file(one, paths, where);
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  check_shards_complete(paths, where);
  return paths;
}

std::string absolute_path(const std::string& path) {
  return store::is_url(path) ? path : fs::absolute(path).lexically_normal().string();
}

}  // namespace tessera::data
