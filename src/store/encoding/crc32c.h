#pragma once
// CRC-32C (Castagnoli; polynomial 0x1EDC6F41 reflected, initial value and final xor all ones), as in iSCSI (RFC 3720, B.4),
// TFRecord and ext4. Uses the processor's instruction where it has one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::store {

// crc32c(b, crc32c(a)) == crc32c(ab); the checksum of nothing is 0.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

// The same by table alone, whatever the processor: the reference of the tests.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc = 0);

// Eight lower-case hexadecimal digits.
std::string crc32c_text(uint32_t crc);

}  // namespace tessera::store
