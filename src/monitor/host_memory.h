#pragma once
// Memory of this machine and of this process, in bytes.

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::monitor {

struct HostMemory {
  int64_t total = 0, available = 0;  // of the machine, as /proc/meminfo says
  int64_t resident = 0;              // of this process, as /proc/self/statm says

  int64_t used() const { return total - available; }
};

// Nothing where the system does not tell.
std::optional<HostMemory> host_memory();
// The texts of the two files, for pages of `page` bytes.
std::optional<HostMemory> parse_host_memory(std::string_view meminfo, std::string_view statm, int64_t page);

}  // namespace tessera::monitor
