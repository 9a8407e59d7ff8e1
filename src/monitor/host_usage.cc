#include "monitor/host_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace tessera::monitor {
namespace {

std::string contents(const char* path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');  // none has a zero byte; where a read fails, what came before
  return text;
}

// The first number of `text`, which may have blanks before it.
std::optional<int64_t> number_in(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

// The number behind a name: of "MemTotal:       24689764 kB", 24689764.
std::optional<int64_t> entry(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  return at == std::string_view::npos ? std::nullopt : number_in(text.substr(at + name.size()));
}

}  // namespace

std::optional<HostMemory> parse_host_memory(std::string_view meminfo, std::string_view statm, int64_t page) {
  const auto total = entry(meminfo, "MemTotal:"), available = entry(meminfo, "MemAvailable:");
  const size_t blank = statm.find(' ');
  if (!total || !available || blank == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> pages = number_in(statm.substr(blank));
  if (!pages) return std::nullopt;
  return HostMemory{*total * 1024, *available * 1024, *pages * page};
}

std::optional<HostMemory> host_memory() {
  return parse_host_memory(contents("/proc/meminfo"), contents("/proc/self/statm"), sysconf(_SC_PAGESIZE));
}

std::optional<HostTraffic> parse_host_traffic(std::string_view io) {
  const auto read = entry(io, "\nread_bytes:"), written = entry(io, "\nwrite_bytes:");
  return read && written ? std::optional(HostTraffic{*read, *written}) : std::nullopt;
}

std::optional<ProcessorTime> parse_processor_time(std::string_view stat, double ticks, double process) {
  // user nice system idle iowait irq softirq steal, and guests, who are in user and nice already (proc(5)).
  constexpr size_t kIdle = 3, kWait = 4, kCounts = 8;
  if (!stat.starts_with("cpu ") || !(ticks > 0)) return std::nullopt;
  stat = stat.substr(0, stat.find('\n'));
  ProcessorTime out;
  for (size_t i = 0; i < kCounts; ++i) {
    const size_t blank = stat.find_first_of(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    stat.remove_prefix(std::min(stat.find_first_not_of(' ', blank), stat.size()));
    const auto count = number_in(stat);
    if (!count) return std::nullopt;
    out.all += static_cast<double>(*count) / ticks;
    if (i != kIdle && i != kWait) out.busy += static_cast<double>(*count) / ticks;
  }
  out.process = process;
  return out;
}

std::optional<ProcessorTime> processor_time() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return parse_processor_time(contents("/proc/stat"), static_cast<double>(sysconf(_SC_CLK_TCK)),
                              seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

std::optional<HostTraffic> host_traffic() { return parse_host_traffic(contents("/proc/self/io")); }

}  // namespace tessera::monitor
