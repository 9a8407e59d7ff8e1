#include "host/units/cpu_level.h"

#include <hwy/targets.h>

#include <cstdlib>
#include <string_view>
#include <utility>

namespace tessera::host {
namespace {

std::string_view level() {
  const char* value = std::getenv("TESSERA_CPU");
  return value ? value : "";
}

// Before main: Highway chooses the first time a function is called.
[[maybe_unused]] const bool held = [] {
#if defined(__x86_64__)
  // Better targets have lower bits. Without SSSE3 Highway has the one that every x86-64 processor has.
  constexpr std::pair<std::string_view, int64_t> kBetter[] = {
      {"avx2", HWY_AVX2 - 1}, {"sse4", HWY_SSE4 - 1}, {"ssse3", HWY_SSSE3 - 1}, {"baseline", 2 * HWY_SSSE3 - 1}};
  for (const auto& [name, better] : kBetter) {
    if (level() == name) hwy::DisableTargets(better);
  }
#endif
  return true;
}();

}  // namespace

bool matrix_unit_allowed() { return level().empty(); }
bool vector_bf16_allowed() { return level().empty() || level() == "avx512_bf16"; }

}  // namespace tessera::host
