#pragma once
// Files behind one small interface, so that a test can fail any single operation and so that an object store can stand in for a
// disk. Paths are strings as the operating system takes them. Every operation throws IoError when it fails; where a file is
// opened for reading, what expect_not_exhausted() throws too.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/encoding/bytes.h"

namespace tessera::store {

// A file operation that failed: a data error "cannot write `runs/a/metrics.jsonl`: No space left on device".
class IoError : public Error {
 public:
  // `number` is an errno value; `action` completes "cannot …", e.g. "write".
  IoError(int number, std::string_view action, const std::string& path);
  int number() const { return number_; }

 private:
  int number_;
};

// The process or the machine has as many files open as it may. It is no Error, because a handler of Error would take the file
// for a bad one.
class OutOfFiles : public std::exception {
 public:
  // `number` is EMFILE or ENFILE; `path` is the file that was to be opened.
  OutOfFiles(int number, std::string_view path);
  const char* what() const noexcept override { return text_.c_str(); }
  // Whether it is the process's limit (`ulimit -n`), and not the machine's.
  bool of_process() const { return of_process_; }

 private:
  std::string text_;
  bool of_process_;
};

// For a file that could not be opened or read with `number`, an errno value: throws OutOfFiles or std::bad_alloc where the
// system has no more of either to give.
void expect_not_exhausted(int number, std::string_view path);
// The same, and IoError for every other number.
[[noreturn]] void fail_reading(int number, std::string_view action, const std::string& path);

// Tells files apart whatever their names: equal for the same file only, as long as it is held open.
struct FileId {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileId&) const = default;
};

struct FileInfo {
  std::string name;        // the last part of the path
  bool directory = false;  // of the target, where the entry is a symbolic link
  bool symlink = false;
  int64_t size = 0;  // bytes, of the target
  FileId id;         // of the target
};

// Random access for reading. Safe to use from several threads at once.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual int64_t size() const = 0;
  // Fills `out` from `offset`; throws when the file ends before.
  virtual void read(int64_t offset, std::span<std::byte> out) const = 0;
  // Says that these bytes will be read soon: a file on a slow disk may begin to fetch them. Never fails.
  virtual void prefetch(int64_t, int64_t) const {}
};

// A stream for writing. Destruction closes it and drops what was not flushed; only sync() makes a promise.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  // Hands buffered bytes to the operating system: they survive the end of this process.
  virtual void flush() = 0;
  // flush(), then waits until the bytes survive a power cut.
  virtual void sync() = 0;
  // flush(), then closes, reporting what the system only reports on closing. No other call may follow.
  virtual void close() = 0;
  // What the open file is now, whatever became of its path; without what is not flushed yet. `name` is empty.
  virtual FileInfo info() const = 0;
};

// A directory held open: what is done through it is done in this very directory, whatever became of its path, and no symbolic
// link is followed. `name` is always one part of a path.
class Directory {
 public:
  virtual ~Directory() = default;
  virtual FileId id() const = 0;
  // Of a symbolic link itself: neither a directory nor of any size.
  virtual std::optional<FileInfo> info(const std::string& name) = 0;
  // Sorted by name, without "." and "..", each as info() has it.
  virtual std::vector<FileInfo> list() = 0;
  // Fails where `name` is a symbolic link.
  virtual std::unique_ptr<Directory> open(const std::string& name) = 0;
  // A new, empty file; fails where there is anything of this name.
  virtual std::unique_ptr<WritableFile> create(const std::string& name) = 0;
  // Fails where there is anything of this name.
  virtual void make_directory(const std::string& name) = 0;
  // Atomically, in this directory, replacing a file there.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove_file(const std::string& name) = 0;
  // The directory must be empty.
  virtual void remove_directory(const std::string& name) = 0;
  // As FileSystem::sync_directory.
  virtual void sync() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The file or directory at `path`, or nothing when there is none.
  virtual std::optional<FileInfo> info(const std::string& path) = 0;
  // The entries of a directory, sorted by name, without "." and "..".
  virtual std::vector<FileInfo> list(const std::string& path) = 0;

  // Throws an Error for what is no regular file, here and in map(): a pipe, a device.
  virtual std::unique_ptr<ReadableFile> open(const std::string& path) = 0;
  // A read-only view of the whole file. Whoever used the bytes asks Bytes::check(): a part that cannot be read, or that was cut
  // off meanwhile, reads as zeros (removing the file is harmless).
  virtual Bytes map(const std::string& path) = 0;

  // Files are written where `path` says: a symbolic link at its end is an IoError (ELOOP), as it leads to what is not the caller's.

  // A new, empty file in place of any older one.
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;
  // Writes go to the end; the file is created when missing.
  virtual std::unique_ptr<WritableFile> append(const std::string& path) = 0;
  virtual void truncate(const std::string& path, int64_t size) = 0;

  // `path` itself may lead through symbolic links.
  virtual std::unique_ptr<Directory> open_directory(const std::string& path) = 0;
  // Creates the directory and those above it, as far as they are missing; what is created survives a power cut.
  virtual void make_directories(const std::string& path) = 0;
  // Atomically gives `from` the name `to`, replacing a file there. Survives a power cut after sync_directory(parent).
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Atomically swaps two existing entries of one directory.
  virtual void exchange(const std::string& a, const std::string& b) = 0;
  virtual void remove_file(const std::string& path) = 0;
  // The directory must be empty.
  virtual void remove_directory(const std::string& path) = 0;
  // Waits until the directory's entries (creations, renames, removals) survive a power cut.
  virtual void sync_directory(const std::string& path) = 0;
};

// The machine's own files.
FileSystem& local_files();

// "a" + "b" -> "a/b"; an empty `directory` gives `name` alone.
std::string join_path(std::string_view directory, std::string_view name);
// "a/b" -> "a"; "b" -> "."
std::string parent_path(std::string_view path);
// "a/b/" -> "b"
std::string last_part(std::string_view path);

std::string read_text(FileSystem& files, const std::string& path);  // of up to 4 GiB; throws for more
std::vector<std::byte> read_range(FileSystem& files, const std::string& path, int64_t offset, int64_t length);

// Readers see the old content or the whole new one, whenever the power goes: writes a temporary file beside it, syncs it,
// renames it and syncs the directory. On failure the temporary file is removed and the old content stays.
void write_atomic(FileSystem& files, const std::string& path, std::span<const std::byte> content);
void write_atomic(FileSystem& files, const std::string& path, std::string_view content);
void write_atomic(Directory& directory, const std::string& name, std::string_view content);
// The same for content that is never whole in memory: `write` makes the file at the temporary path it is given, and syncs it.
// Whatever it throws leaves here, after the temporary file was removed.
void write_atomic(FileSystem& files, const std::string& path, const std::function<void(const std::string& temporary)>& write);

// Creates `folders` ("bad_batches/step_000000120") below `root`, as far as they are missing. Throws a usage Error where one of
// them is a symbolic link, which leads to what is not the caller's; `root` may be one.
void make_directories_below(FileSystem& files, const std::string& root, std::string_view folders);

// Removes a file, or a directory and what is in it. A symbolic link is removed, never followed, at `path` itself too.
void remove_tree(FileSystem& files, const std::string& path);

}  // namespace tessera::store
