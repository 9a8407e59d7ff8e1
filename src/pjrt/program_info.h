#pragma once
// What a compiler says of a program it has compiled, loaded on devices or not.

#include <algorithm>
#include <cstdint>
#include <string>

#include "pjrt/plugin/plugin.h"

struct PJRT_Executable;

namespace tessera::pjrt {

// The compiler's account of one device's memory, in bytes.
struct CompiledMemory {
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliased = 0;  // outputs that reuse an argument's memory, counted in both of the above
  int64_t temporaries = 0;
  int64_t generated_code = 0;
  int64_t peak = 0;  // what must be free at the worst moment, arguments included; 0 where the plugin does not tell

  // Plugins that leave some of the peak out (CPU) give less than what is there at once for certain.
  int64_t at_worst() const { return std::max(peak, arguments + outputs - aliased); }
};

CompiledMemory memory_of(const Plugin& plugin, PJRT_Executable* executable);
// The program after all passes, one device's: an HloModuleProto, serialised. `format` says in which wrapping: "hlo", or
// "hlo_with_config" with its configuration around it (pjrt/program/hlo.h reads both).
std::string optimized_program_of(const Plugin& plugin, PJRT_Executable* executable, std::string* format);

}  // namespace tessera::pjrt
