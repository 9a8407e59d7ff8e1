// Highway's library measures the resolution of the processor's clock whenever a program starts, for its own benchmarks: 4 ms, a
// quarter of the time of `tessera version`. No program here asks for it. The linker takes this function in the place of the
// library's, there too.

#include <cstdint>

namespace hwy::platform {

// As the library declares it (hwy/nanobenchmark.h, hwy/timer.h).
__attribute__((visibility("default"))) uint64_t TimerResolution();

uint64_t TimerResolution() { return 1; }

}  // namespace hwy::platform
