// The settings of jemalloc, which programs are linked with (CMakeLists.txt: tessera_use_allocator).
//
// A compiled program takes its temporaries anew for every step, hundreds of megabytes that the kernel would hand out in pages
// of 4 KiB, zeroed one by one. In huge pages a ViT-S/16 step on the CPU takes 8 % less time. Blocks of up to 64 MiB are kept from
// step to step by jemalloc itself; larger ones are kept as base/system/large_blocks.h says.

#include "base/system/large_blocks.h"

extern "C" {
// NOLINTNEXTLINE(misc-use-internal-linkage): jemalloc reads it.
const char* malloc_conf = "thp:always,oversize_threshold:67108864";
}

namespace {
const bool kept = (tessera::keep_large_blocks(), true);
}
