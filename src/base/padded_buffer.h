#pragma once
// Bytes of files and pixels, and memory for them that vector code may read past.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tessera {

using ByteSpan = std::span<const uint8_t>;

// Uninitialised bytes that grow but keep their memory. Past size() lie kPadding readable bytes, so that vector code may load
// whole registers at the end.
class PaddedBuffer {
 public:
  static constexpr size_t kPadding = 64;

  // Contents are undefined afterwards. A buffer that grew past 64 MiB for one huge item gives the memory back at the next small
  // one.
  void reset(size_t size);
  uint8_t* data() { return bytes_.get(); }
  const uint8_t* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  ByteSpan view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace tessera
