#pragma once
// Memory of this machine and of this process, and what the process read and wrote: all in bytes.

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

// What storage delivered and took for this process since it began (/proc/self/io): files that were in memory already are not
// counted, and network file systems as far as they tell.
struct HostTraffic {
  int64_t read = 0, written = 0;
};
std::optional<HostTraffic> host_traffic();
std::optional<HostTraffic> parse_host_traffic(std::string_view io);

}  // namespace tessera::monitor
