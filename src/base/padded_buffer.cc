#include "base/padded_buffer.h"

namespace tessera {
namespace {
constexpr size_t kKeepBytes = size_t{64} << 20;
}

void PaddedBuffer::reset(size_t size) {
  const bool oversized = capacity_ > kKeepBytes && size < kKeepBytes / 4;
  if (size > capacity_ || oversized || !bytes_) {
    bytes_.reset();
    bytes_ = std::make_unique_for_overwrite<uint8_t[]>(size + kPadding);
    capacity_ = size;
  }
  size_ = size;
}

}  // namespace tessera
