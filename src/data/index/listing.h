#pragma once
// Which files a source consists of.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace tessera::data {

enum class EntryKind {
  kFile,
  kDirectory,
  kDirectoryLink,  // a symbolic link to a directory
};

// Calls visit(name, kind) for each entry of a directory but those that begin with a dot, in no particular order. Asks the
// system for nothing but names where the file system tells kinds with them. Throws IoError.
void list_directory(const std::string& path, const std::function<void(std::string_view name, EntryKind kind)>& visit);

// When a file or directory changed last, and its size, in one call to the system. Of an object in a bucket `mtime` is a negative
// number made of its ETag or generation, which changes with the object.
struct FileStamp {
  int64_t size = 0;
  int64_t mtime = 0;  // nanoseconds since 1970
  bool operator==(const FileStamp&) const = default;
};
// The `mtime` of an object with this tag.
int64_t object_version(uint64_t tag);
// Throws IoError when there is nothing at `path`; a data Error for objects.
FileStamp stamp_of(const std::string& path);

// Whether a listing that began at `began` (nanoseconds since 1970) may have missed a later change: file systems tell time
// coarsely, so that a change right after the listing leaves the same mtime.
bool too_fresh(int64_t mtime, int64_t began);
int64_t now_nanoseconds();
// A number for Source::stamp: nothing when `stamp` is too fresh to tell a change by.
std::optional<uint64_t> stamp_number(const FileStamp& stamp);
// The number for the file that is at `path` now; nothing where there is none.
std::optional<uint64_t> stamp_number(const std::string& path);

// A hash of the paths, sizes and times of change of `count` files; a missing file counts too. Runs on several threads.
Hash128 fingerprint_files(int64_t count, const std::function<std::string(int64_t)>& path);

// The files that `pattern` names, sorted as bytes. It is a path that may have braces (shard_names.h), and * ? [ ] in any part.
// An object of a bucket (store/servers/buckets.h) that is named without wildcards is not looked for. Throws a data Error at
// `where` when a file is missing or nothing matches, and when names of the form …-00003-of-01024… show that a shard of a set is
// missing.
std::vector<std::string> find_shards(const std::string& pattern, const std::string& where);

// Paths from `path` alone to absolute ones; "." and doubled slashes are dropped. A URL is itself.
std::string absolute_path(const std::string& path);

}  // namespace tessera::data
