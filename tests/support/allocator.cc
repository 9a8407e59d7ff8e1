// jemalloc's setting for tests, that of programs (src/cli/program/allocator.cc) without what they keep from step to step.

extern "C" {
// NOLINTNEXTLINE(misc-use-internal-linkage): jemalloc reads it.
const char* malloc_conf = "thp:always";
}
