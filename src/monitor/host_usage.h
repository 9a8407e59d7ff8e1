#pragma once
// What this machine and this process use: memory, traffic of files (bytes), and time of processors.

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

// Time of processors, in seconds: of all of this machine together since it started (/proc/stat), and what this process took of it
// since it began (getrusage(2)).
struct ProcessorTime {
  double all = 0, busy = 0;  // busy: neither idle nor waiting for a disk
  double process = 0;
};
std::optional<ProcessorTime> processor_time();
// `stat`: the text of /proc/stat, whose times are in ticks; `ticks`: so many a second; `process`: seconds.
std::optional<ProcessorTime> parse_processor_time(std::string_view stat, double ticks, double process);

}  // namespace tessera::monitor
