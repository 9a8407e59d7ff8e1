#pragma once
// What the operating system says of this process.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>

namespace tessera {

// The most memory that this process ever had resident, in bytes.
inline int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// Memory that the machine has; 0 where that can't be told.
inline int64_t physical_memory_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && size > 0 ? pages * size : 0;
}

}  // namespace tessera
