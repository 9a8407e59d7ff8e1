#pragma once
// Reads whole numbers in seven bits a byte, the least first, as protobuf, Riegeli and Thrift have them. protozero writes them;
// what it reads them with throws, which takes long in files of nothing but wrong ones.

#include <cstdint>
#include <string_view>

namespace tessera::data {

// Takes one off the front; false where there is none, and then some of `in` may be gone.
inline bool take_varint(std::string_view& in, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return true;
  }
  return false;
}

}  // namespace tessera::data
