#include "base/system/large_blocks.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string>

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

// A name of jemalloc's, of the arena: "arena." and "purge" give "arena.7.purge".
std::string name_of(const char* group, const char* what) { return group + std::to_string(arena.load()) + "." + what; }

}  // namespace

void keep_large_blocks() {
  if (!mallctl) return;
  arena = find_arena();
  if (arena < 0) return;
  ssize_t never = -1;
  mallctl(name_of("arena.", "dirty_decay_ms").c_str(), nullptr, nullptr, &never, sizeof(never));
}

void give_back_free_memory() {
  constexpr const char* kAllArenas = "arena.4096.purge";  // MALLCTL_ARENAS_ALL
  if (mallctl) mallctl(kAllArenas, nullptr, nullptr, nullptr, 0);
}

void give_back_large_blocks() {
  if (!mallctl || arena < 0) return;
  mallctl(name_of("arena.", "purge").c_str(), nullptr, nullptr, nullptr, 0);
}

std::optional<int64_t> free_large_blocks() {
  if (!mallctl || arena < 0) return std::nullopt;
  uint64_t epoch = 1;  // statistics are as of the last time that somebody wrote this
  mallctl("epoch", nullptr, nullptr, &epoch, sizeof(epoch));
  size_t pages = 0, page = 0, size = sizeof(size_t);
  const bool known = mallctl(name_of("stats.arenas.", "pdirty").c_str(), &pages, &size, nullptr, 0) == 0 &&
                     mallctl("arenas.page", &page, &size, nullptr, 0) == 0;
  return known ? std::optional(static_cast<int64_t>(pages * page)) : std::nullopt;
}

}  // namespace tessera
