#include "monitor/append_file.h"

#include <cerrno>
#include <exception>
#include <utility>

#include "base/error.h"

namespace tessera::monitor {

AppendFile::AppendFile(std::string path, int64_t size, store::FileSystem& files)
    : path_(std::move(path)), files_(files), directory_(files.open_directory(store::parent_path(path_))), size_(size) {}

void AppendFile::expect_directory() const {
  const auto there = files_.info(store::parent_path(path_));
  if (!there || there->id != directory_->id()) throw store::IoError(ENOENT, "write", path_);
}

void AppendFile::add(std::string_view bytes) {
  if (!file_) {
    cut(size_);
    file_ = files_.append(path_);
  }
  try {
    file_->write(store::as_bytes(bytes));
    file_->flush();
  } catch (const store::IoError&) {
    file_.reset();
    cut_part();
    throw;
  }
  size_ += static_cast<int64_t>(bytes.size());
}

void AppendFile::cut(int64_t size) {
  file_.reset();
  expect_directory();
  const bool there = files_.info(path_).has_value();
  if (!there && size > 0) throw store::IoError(ENOENT, "write", path_);
  if (there) files_.truncate(path_, size);
  size_ = size;
}

// At once, so that the last record of a file is whole too; where that fails, the next add() does it.
void AppendFile::cut_part() noexcept {
  try {
    cut(size_);
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception&) {
    // add() throws what is wrong.
  }
}

}  // namespace tessera::monitor
