#include "store/encoding/tfrecord_frame.h"

#include <bit>
#include <cstring>

#include "store/encoding/bytes.h"
#include "store/encoding/crc32c.h"

namespace tessera::store {
namespace {

constexpr uint32_t kMaskDelta = 0xa282ead8;

template <class T>
T load(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(as_bytes(bytes)), 15) + kMaskDelta; }

std::string tfrecord_header(std::string_view data) {
  std::string header;
  append(header, static_cast<uint64_t>(data.size()));
  append(header, masked_crc32c(header));
  return header;
}

std::string tfrecord_footer(std::string_view data) {
  std::string footer;
  append(footer, masked_crc32c(data));
  return footer;
}

std::optional<uint64_t> tfrecord_length(std::string_view header) {
  if (masked_crc32c(header.substr(0, 8)) != load<uint32_t>(header.substr(8))) return std::nullopt;
  return load<uint64_t>(header);
}

bool tfrecord_intact(std::string_view data, std::string_view footer) {
  return footer.size() == kTfrecordFooter && load<uint32_t>(footer) == masked_crc32c(data);
}

}  // namespace tessera::store
