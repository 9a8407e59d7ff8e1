#pragma once
// When runs of programs with large temporaries begin, on the CPU.
//
// The plugin takes a run's temporaries in one block for each device, and frees it a moment after it has said that the run is
// through. Another run that begins within this moment takes a second block, which then stays with the process
// (base/system/large_blocks.h), and takes longer, because the system hands out every page anew. So a run begins once the one
// before has given its memory back. And the process holds the temporaries of one program at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "pjrt/event.h"

namespace tessera::pjrt {

// The runs of one client. May be used from several threads.
class LargeTemporaries {
 public:
  // Before a run of `program`: waits for the last run on these devices, and gives its memory back to the system where that was
  // another program. Programs are compared by name, because each device may have its own executable of one program.
  void before_run(const std::string& program, std::span<const size_t> devices);
  // The run was given to its devices. `bytes`: its temporaries on all of them. `complete`: an event for each.
  void began(std::span<const size_t> devices, int64_t bytes, std::vector<Event> complete);

 private:
  struct Run {
    int64_t bytes = 0;
    std::vector<Event> complete;
  };

  std::mutex mutex_;
  std::map<size_t, Run> runs_;  // the last that began, by the first of its devices
  std::string program_;         // whose temporaries the process holds
};

}  // namespace tessera::pjrt
