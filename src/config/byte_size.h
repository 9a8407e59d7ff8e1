#pragma once
// Amounts of memory or disk, written with their unit: "8 GiB", "256MiB", "1.5 GB", "65536".

#include <cstdint>
#include <string_view>

namespace tessera::config {

// "<number> <unit>"; the space may be left out, and the unit, which is then bytes: B, KB, MB, GB, TB (powers of 1000), KiB,
// MiB, GiB, TiB (of 1024). From 1 byte to 1e15, the fraction cut off. Anything else is a usage Error at `where`.
int64_t parse_byte_size(std::string_view text, std::string_view where = {});

}  // namespace tessera::config
