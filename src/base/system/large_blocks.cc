#include "base/system/large_blocks.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
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

// Of the arena: "arena.7.purge" for "arena.%d.purge".
std::string name_of(const char* pattern) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), pattern, arena.load());
  return name.data();
}

}  // namespace

void keep_large_blocks() {
  if (!mallctl) return;
  arena = find_arena();
  if (arena < 0) return;
  ssize_t never = -1;
  mallctl(name_of("arena.%d.dirty_decay_ms").c_str(), nullptr, nullptr, &never, sizeof(never));
}

void give_back_free_memory() {
  constexpr const char* kAllArenas = "arena.4096.purge";  // MALLCTL_ARENAS_ALL
  if (mallctl) mallctl(kAllArenas, nullptr, nullptr, nullptr, 0);
}

void give_back_large_blocks() {
  if (!mallctl || arena < 0) return;
  mallctl(name_of("arena.%d.purge").c_str(), nullptr, nullptr, nullptr, 0);
}

int64_t free_large_blocks() {
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  if (!mallctl || arena < 0) return kUnknown;
  uint64_t epoch = 1;  // statistics are as of the last time that somebody wrote this
  mallctl("epoch", nullptr, nullptr, &epoch, sizeof(epoch));
  size_t pages = 0, page = 0, size = sizeof(size_t);
  const bool known = mallctl(name_of("stats.arenas.%d.pdirty").c_str(), &pages, &size, nullptr, 0) == 0 &&
                     mallctl("arenas.page", &page, &size, nullptr, 0) == 0;
  return known ? static_cast<int64_t>(pages * page) : kUnknown;
}

}  // namespace tessera
