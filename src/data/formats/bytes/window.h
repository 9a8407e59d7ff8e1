#pragma once
// Walks through a file from front to back, reading small things: headers before bodies that are passed over.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "store/encoding/bytes.h"
#include "store/file.h"

namespace tessera::data {

// Reads as much at once as the walk makes use of: little where it jumps, up to 1 MiB where it goes on without gaps.
class Window {
 public:
  explicit Window(const store::ReadableFile& file) : file_(file), size_(file.size()) {}

  int64_t file_size() const { return size_; }
  // Bytes [offset, offset + length) of the file, which must have them; gone with the next call.
  std::string_view get(int64_t offset, int64_t length) {
    if (offset < begin_ || offset + length > begin_ + static_cast<int64_t>(buffer_.size())) fill(offset, length);
    return store::as_text(std::span(buffer_)).substr(static_cast<size_t>(offset - begin_), static_cast<size_t>(length));
  }
  bool has(int64_t offset, int64_t length) const {
    return offset >= 0 && length >= 0 && offset <= size_ && length <= size_ - offset;
  }

 private:
  static constexpr int64_t kLeast = 4 << 10, kMax = 1 << 20;

  void fill(int64_t offset, int64_t length) {
    const int64_t end = begin_ + static_cast<int64_t>(buffer_.size());
    const bool near = offset >= begin_ && offset <= end + step_;
    step_ = near ? std::min(2 * step_, kMax) : std::max(step_ / 4, kLeast);
    buffer_.resize(static_cast<size_t>(std::min(std::max(length, step_), size_ - offset)));
    begin_ = offset;
    file_.read(offset, buffer_);
  }

  const store::ReadableFile& file_;
  int64_t size_, begin_ = 0, step_ = kLeast;
  std::vector<std::byte> buffer_;
};

}  // namespace tessera::data
