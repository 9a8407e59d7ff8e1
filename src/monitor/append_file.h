#pragma once
// A file of a sink that grows by whole records.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "store/file.h"

namespace tessera::monitor {

// What was added reaches the operating system before add() returns. What could not be written leaves no part behind, where the
// disk allows that, so that the file is whole records at any time.
class AppendFile {
 public:
  // Opens the directory of `path`, where the file is, or is made by the first add(), and has `size` bytes that stay.
  AppendFile(std::string path, int64_t size, store::FileSystem& files);

  // Throws store::IoError where it cannot write, and where the directory was removed or replaced.
  void add(std::string_view bytes);
  // Drops what follows the first `size` bytes.
  void cut(int64_t size);
  int64_t size() const { return size_; }

 private:
  void expect_directory() const;
  void cut_part() noexcept;

  const std::string path_;
  store::FileSystem& files_;
  std::unique_ptr<store::Directory> directory_;
  std::unique_ptr<store::WritableFile> file_;
  int64_t size_;
};

}  // namespace tessera::monitor
