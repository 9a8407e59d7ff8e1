#pragma once
// What the operating system says of this process.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

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

// What a limit on address space (ulimit -v) leaves, in bytes; nothing where there is no limit.
inline std::optional<int64_t> address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGE_SIZE);
}

// Of a process whose number is in the name of something that it left: true for one that is gone, though its parent may not have
// asked how it ended, and for this process, which left nothing before it began.
inline bool process_is_dead(int64_t pid) {
  if (pid == getpid() || (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH)) return true;
  std::string text;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), text);
  const size_t name_end = text.rfind(')');  // "4711 (name) Z …"
  return name_end != std::string::npos && text.substr(name_end + 1, 2) == " Z";
}

// The machine's name as the kernel has it; empty where it tells none.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace tessera
