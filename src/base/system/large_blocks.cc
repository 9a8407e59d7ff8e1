#include "base/system/large_blocks.h"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

// jemalloc's, where a program is linked with it. Weak: null elsewhere.
extern "C" [[gnu::weak]] int mallctl(const char* name, void* old, size_t* old_size, void* value, size_t value_size);

namespace tessera {
namespace {

// The number of the arena in which jemalloc keeps all blocks above its oversize_threshold.
std::atomic<int> arena{-1};

int find_arena() {
  void* block = std::malloc(static_cast<size_t>(2 * kLargeBlock));  // never touched: takes no memory
  unsigned found = 0;
  size_t size = sizeof(found);
  const bool known = block && mallctl("arenas.lookup", &found, &size, static_cast<void*>(&block), sizeof(block)) == 0;
  std::free(block);
  return known ? static_cast<int>(found) : -1;
}

}  // namespace

void keep_large_blocks() {
  if (!mallctl) return;
  arena = find_arena();
  if (arena < 0) return;
  char name[64];
  std::snprintf(name, sizeof(name), "arena.%d.dirty_decay_ms", arena.load());
  ssize_t never = -1;
  mallctl(name, nullptr, nullptr, &never, sizeof(never));
}

void give_back_large_blocks() {
  if (!mallctl || arena < 0) return;
  char name[64];
  std::snprintf(name, sizeof(name), "arena.%d.purge", arena.load());
  mallctl(name, nullptr, nullptr, nullptr, 0);
}

}  // namespace tessera
