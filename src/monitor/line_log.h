#pragma once
// A text file that only grows, line by line, and survives what happens to a run: a full disk, a kill, a power cut.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "store/file.h"

namespace tessera::monitor {

// Safe to use from several threads. Where another program removes, replaces or changes the file meanwhile, a warning says so,
// disturbed() is true from then on, and further lines go to what is there; only where the directory is gone too, or another one
// has its name, they wait in memory. A line whose writing fails is kept in memory and tried again with the next one, so that a
// disk that is full for a while costs nothing; while lines wait, failing() is true.
class LineLog {
 public:
  // Opens or creates `path` when the first line comes; a last line without its end (a write that was cut off) is removed then.
  // A symbolic link is not written through.
  explicit LineLog(std::string path, store::FileSystem& files = store::local_files());

  // Appends `line` and a line end; the line reaches the operating system before this returns.
  void add(std::string_view line);
  // Makes all lines survive a power cut. Throws store::IoError when it cannot.
  void sync();
  // Keeps the lines for which keep() is true, byte for byte, and drops the others and a cut-off last line; atomic.
  void filter(const std::function<bool(std::string_view line)>& keep);
  bool failing() const;
  bool disturbed() const;
  // Nothing was ever written to the file.
  bool empty() const;
  const std::string& path() const { return path_; }

 private:
  void write_pending();
  void open();
  void notice_others();
  void expect_directory();

  const std::string path_;
  store::FileSystem& files_;
  mutable std::mutex mutex_;
  std::unique_ptr<store::WritableFile> file_;
  std::unique_ptr<store::Directory> directory_;  // of the file, as it was at the start or, made later, with the first line
  bool disturbed_ = false;
  std::optional<int64_t> size_;  // bytes of whole lines in the file, once known
  std::string pending_;          // lines that could not be written yet
};

}  // namespace tessera::monitor
