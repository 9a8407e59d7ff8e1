// The settings of jemalloc, which programs are linked with (CMakeLists.txt: tessera_use_allocator).
//
// A compiled program takes its temporaries anew for every step, hundreds of megabytes that the kernel would hand out in pages
// of 4 KiB, zeroed one by one. In huge pages a ViT-S/16 step on the CPU takes 8 % less time. Up to 64 MiB are kept from step
// to step as well; more is given back, so that peaks of different programs do not add up.

extern "C" {
// NOLINTNEXTLINE(misc-use-internal-linkage): jemalloc reads it.
const char* malloc_conf = "thp:always,oversize_threshold:67108864";
}
