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
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/text.h"
#include "store/buckets.h"
#include "store/file.h"
#include "store/file_kind.h"
#include "store/url.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNames = 10'000'000;
constexpr size_t kMaxNameBytes = size_t{1} << 30;  // of all together
constexpr int64_t kMaxBraces = 64;

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

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "000..127" -> 000, 001, …; as wide as the wider end when one begins with a zero.
std::optional<std::vector<std::string>> number_range(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view low = text.substr(0, dots), high = text.substr(dots + 2);
  if (!is_number(low) || !is_number(high) || low.size() > 12 || high.size() > 12) return std::nullopt;
  const int64_t first = std::stoll(std::string(low)), last = std::stoll(std::string(high));
  const bool padded = (low.size() > 1 && low[0] == '0') || (high.size() > 1 && high[0] == '0');
  const size_t width = padded ? std::max(low.size(), high.size()) : 1;
  if (static_cast<uint64_t>(std::abs(last - first)) >= kMaxNames)
    throw data_error(fmt::format("`{{{}}}` is more than {} names", text, human_count(kMaxNames)));
  std::vector<std::string> names;
  for (int64_t i = first;; i += first <= last ? 1 : -1) {
    names.push_back(fmt::format("{:0{}}", i, width));
    if (i == last) return names;
  }
}

size_t closing_brace(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return std::string::npos;
}

std::vector<std::string> alternatives(const std::string& inside) {
  if (auto range = number_range(inside)) return *std::move(range);
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : inside) {
    depth += (c == '{') - (c == '}');
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::vector<std::string> all;
  for (const std::string& part : parts) {
    for (std::string& one : expand_braces(part)) all.push_back(std::move(one));
  }
  return all;
}

size_t total_size(const std::vector<std::string>& texts) {
  size_t size = 0;
  for (const std::string& text : texts) size += text.size();
  return size;
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

// "dir/train.tfrecord-00003-of-01024" -> ("dir/train.tfrecord-*-of-01024", 3, 1024).
struct ShardName {
  std::string set;
  int64_t number = 0, count = 0;
  size_t digits = 0;
};

std::optional<ShardName> shard_name(const std::string& path) {
  const size_t of = path.rfind("-of-");
  if (of == std::string::npos || path.find('/', of) != std::string::npos) return std::nullopt;
  size_t begin = of, end = of + 4;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(path[begin - 1]))) --begin;
  while (end < path.size() && std::isdigit(static_cast<unsigned char>(path[end]))) ++end;
  const size_t digits = of - begin, count_digits = end - of - 4;
  if (digits == 0 || digits > 12 || count_digits == 0 || count_digits > 12) return std::nullopt;
  return ShardName{path.substr(0, begin) + "*" + path.substr(of), std::stoll(path.substr(begin, digits)),
                   std::stoll(path.substr(of + 4, count_digits)), digits};
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

std::vector<std::string> expand_braces(const std::string& pattern) {
  if (std::ranges::count(pattern, '{') > kMaxBraces) {
    throw data_error(fmt::format("`{}…` has more than {} braces", pattern.substr(0, 200), kMaxBraces));
  }
  const size_t open = pattern.find('{');
  const size_t close = open == std::string::npos ? open : closing_brace(pattern, open);
  if (close == std::string::npos) return {pattern};
  const std::vector<std::string> tails = expand_braces(pattern.substr(close + 1));
  const std::vector<std::string> middles = alternatives(pattern.substr(open + 1, close - open - 1));
  if (middles.size() > kMaxNames / tails.size())
    throw data_error(fmt::format("`{}` is more than {} names", pattern, human_count(kMaxNames)));
  if (open * middles.size() * tails.size() + total_size(middles) * tails.size() + total_size(tails) * middles.size() >
      kMaxNameBytes) {
    throw data_error(fmt::format("the names of `{}…` are too long", pattern.substr(0, 200)), {},
                     "put the files into folders, and name each folder as a source of its own");
  }
  std::vector<std::string> all;
  all.reserve(middles.size() * tails.size());
  for (const std::string& middle : middles) {
    for (const std::string& tail : tails) all.push_back(pattern.substr(0, open) + middle + tail);
  }
  return all;
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

void check_shards_complete(const std::vector<std::string>& paths, const std::string& where) {
  struct Set {
    int64_t count = 0;
    size_t digits = 0;
    std::set<int64_t> there;  // so that memory follows from the files, and not from what their names claim
  };
  std::map<std::string, Set> sets;
  for (const std::string& path : paths) {
    const auto name = shard_name(path);
    if (!name || name->count > static_cast<int64_t>(kMaxNames) || name->number >= name->count) continue;
    Set& set = sets[name->set];
    set.count = name->count;
    set.digits = name->digits;
    set.there.insert(name->number);
  }
  for (const auto& [name, set] : sets) {
    const int64_t missing = set.count - std::ssize(set.there);
    if (missing == 0) continue;
    int64_t first = 0;
    while (set.there.contains(first)) ++first;
    std::string path = name;
    path.replace(path.rfind("*-of-"), 1, fmt::format("{:0{}}", first, set.digits));
    throw data_error(fmt::format("{} of the {} shards of `{}` {} missing, first `{}`", human_count(missing),
                                 human_count(set.count), name, missing == 1 ? "is" : "are", path),
                     where, "copy the missing files there; to use a part of the set, rename its files without -of-");
  }
}

std::string absolute_path(const std::string& path) {
  return store::is_url(path) ? path : fs::absolute(path).lexically_normal().string();
}

}  // namespace tessera::data
