#pragma once
// Large blocks of memory that were freed. A compiled program takes its temporaries anew for every step, in one block, and the
// kernel zeroes what it hands out: a tenth of a ViT-S/16 step in bf16. So blocks above kLargeBlock stay with the process, for the
// next step, until somebody gives them back. Programs that are linked with jemalloc do this (cli/program/allocator.cc); elsewhere,
// as in tests, the functions do nothing, and the C library gives blocks back at once.

#include <cstdint>
#include <optional>

namespace tessera {

inline constexpr int64_t kLargeBlock = int64_t{64} << 20;  // bytes: oversize_threshold in cli/program/allocator.cc

// From now on, freed blocks are kept.
void keep_large_blocks();
// Those that are free now go back to the system.
void give_back_large_blocks();
// All memory that is free goes back to the system, of blocks of any size.
void give_back_free_memory();
// Bytes of the blocks that are free now and kept. Nothing in programs that keep none.
std::optional<int64_t> free_large_blocks();

}  // namespace tessera
