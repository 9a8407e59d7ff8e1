#pragma once
// A directory of one object, gone with it.

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tessera {

// Under TMPDIR, or /tmp; its owner's alone.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view name)
      : path_((std::filesystem::temp_directory_path() / fmt::format("{}-XXXXXX", name)).string()) {
    if (!::mkdtemp(path_.data())) throw device_error(fmt::format("cannot make a directory like `{}`", path_));
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tessera
