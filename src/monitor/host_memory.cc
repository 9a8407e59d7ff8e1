#include "monitor/host_memory.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace tessera::monitor {
namespace {

std::string contents(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
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

// "MemTotal:       24689764 kB" -> bytes
std::optional<int64_t> entry(std::string_view meminfo, std::string_view name) {
  const size_t at = meminfo.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> kilobytes = number_in(meminfo.substr(at + name.size()));
  return kilobytes ? std::optional(*kilobytes * 1024) : std::nullopt;
}

}  // namespace

std::optional<HostMemory> parse_host_memory(std::string_view meminfo, std::string_view statm, int64_t page) {
  const auto total = entry(meminfo, "MemTotal:"), available = entry(meminfo, "MemAvailable:");
  const size_t blank = statm.find(' ');
  if (!total || !available || blank == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> pages = number_in(statm.substr(blank));
  if (!pages) return std::nullopt;
  return HostMemory{*total, *available, *pages * page};
}

std::optional<HostMemory> host_memory() {
  return parse_host_memory(contents("/proc/meminfo"), contents("/proc/self/statm"), sysconf(_SC_PAGESIZE));
}

}  // namespace tessera::monitor
