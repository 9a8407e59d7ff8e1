#include "monitor/host_usage.h"

#include <unistd.h>

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

std::optional<HostTraffic> host_traffic() { return parse_host_traffic(contents("/proc/self/io")); }

}  // namespace tessera::monitor
