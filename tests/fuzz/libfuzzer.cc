// One program a target: TESSERA_FUZZ_TARGET names it, and TESSERA_FUZZ_TARGETS the list that has it.

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tessera::fuzz::Target target = [] {
    for (const auto& [name, one] : tessera::fuzz::TESSERA_FUZZ_TARGETS()) {
      if (std::strcmp(name, TESSERA_FUZZ_TARGET) == 0) return one;
    }
    std::abort();
  }();
  target({reinterpret_cast<const char*>(data), size});
  return 0;
}
