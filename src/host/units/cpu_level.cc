#include "host/units/cpu_level.h"

#include <hwy/targets.h>

#include <cstdlib>
#include <string_view>

namespace tessera::host {
namespace {

std::string_view level() {
  const char* value = std::getenv("TESSERA_CPU");
  return value ? value : "";
}

// Before main: Highway chooses the first time a function is called.
[[maybe_unused]] const bool held = [] {
#if defined(__x86_64__)
  constexpr int64_t kAboveAvx2 = HWY_AVX2 - 1;  // better targets have lower bits
  if (level() == "avx2") hwy::DisableTargets(kAboveAvx2);
#endif
  return true;
}();

}  // namespace

bool matrix_unit_allowed() { return level().empty(); }
bool vector_bf16_allowed() { return level().empty() || level() == "avx512_bf16"; }

}  // namespace tessera::host
