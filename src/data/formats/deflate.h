#pragma once
// Reads data that zlib or gzip compressed.

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::data {

// The bytes of a zlib or gzip stream (RFC 1950, 1952; several gzip members in a row are one). Throws a data Error without a place for
// a stream that is damaged or cut short, and for more than `most` bytes.
std::string inflate_bytes(std::string_view packed, size_t most);

}  // namespace tessera::data
