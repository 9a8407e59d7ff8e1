#pragma once
// Read-only memory together with whatever keeps it alive: a mapped file, a vector, a device buffer's host copy.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::store {

class Mapping;  // store/local/mapping.cc

struct Bytes {
  std::shared_ptr<const void> owner;  // may be null when the memory outlives every reader anyway
  std::span<const std::byte> data;
  const Mapping* mapping = nullptr;  // what `owner` is where the memory is a mapped file

  size_t size() const { return data.size(); }
  // To be asked after the bytes were used: throws IoError where a page of the mapped file could not be read, so that zeros were
  // seen in its place. Asking again gives the same; from any thread.
  void check() const;
  // The same as an answer.
  bool readable() const;
};

// Takes the vector; no copy.
Bytes own_bytes(std::vector<std::byte> bytes);
// Copies.
Bytes copy_bytes(std::span<const std::byte> bytes);

// The same memory seen as text or as bytes.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace tessera::store
