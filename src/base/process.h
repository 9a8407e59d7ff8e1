#pragma once
// What the operating system says of this process.

#include <sys/resource.h>

#include <cstdint>

namespace tessera {

// The most memory that this process ever had resident, in bytes.
inline int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace tessera
