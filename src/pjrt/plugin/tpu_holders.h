#pragma once
// Who has this machine's TPU. libtpu lets one process at a time have it, and a process that was meant to end may still be there.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::pjrt {

struct TpuHolders {
  struct Process {
    int64_t pid = 0;
    std::string command;  // for reading: printable, one line, its beginning where it is long
  };
  std::vector<Process> processes;  // others than this one, by their ids
  bool all_seen = true;            // false where there are processes of others whose files this user can't see
  bool lock_file = false;          // libtpu's is there

  std::string text() const;  // "process 4711 (python3 train.py)"; empty where none is known
  // What to do where libtpu did not start, for this reason in its words; empty where nothing points to another process.
  std::string help(std::string_view reason) const;
};

// Those that have a chip (/dev/accel*, /dev/vfio/NUMBER) or libtpu's lock file open. What can't be read is passed over. The
// parameters are for tests.
TpuHolders find_tpu_holders(const std::string& proc = "/proc", const std::string& lock_file = "/tmp/libtpu_lockfile");

}  // namespace tessera::pjrt
