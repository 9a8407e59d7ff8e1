#include "store/servers/block_cache.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace tessera::store {

std::vector<BlockCache::Wanted> BlockCache::claim(uint64_t file, int64_t first, int64_t last) {
  std::vector<Wanted> wanted;
  const std::lock_guard lock(mutex_);
  for (int64_t number = first; number <= last; ++number) {
    const Key key{file, number};
    if (const auto found = entries_.find(key); found != entries_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second.place);
      wanted.push_back({number, found->second.block, nullptr});
      continue;
    }
    auto promise = std::make_shared<std::promise<Block>>();
    recent_.push_front(key);
    entries_[key] = {promise->get_future().share(), recent_.begin()};
    wanted.push_back({number, entries_[key].block, std::move(promise)});
  }
  return wanted;
}

// The block has come: what was not used for longest makes room for it. Blocks on their way count nothing and stay.
void BlockCache::keep(const Key& key, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  found->second.bytes = bytes;
  total_ += bytes;
  for (auto place = recent_.end(); total_ > capacity_ && place != recent_.begin();) {
    --place;
    const auto entry = entries_.find(*place);
    if (entry->second.bytes == 0 || *place == key) continue;
    total_ -= entry->second.bytes;
    entries_.erase(entry);
    place = recent_.erase(place);
  }
}

void BlockCache::fetch_claimed(uint64_t file, int64_t size, std::vector<Wanted>& wanted, const Fetch& fetch) {
  for (size_t begin = 0; begin < wanted.size();) {
    if (!wanted[begin].promise) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < wanted.size() && wanted[end].promise) ++end;
    const int64_t from = wanted[begin].number * kBlock, to = std::min(size, (wanted[end - 1].number + 1) * kBlock);
    try {
      std::vector<std::byte> bytes(static_cast<size_t>(to - from));
      fetch(from, bytes);
      for (size_t i = begin; i < end; ++i) {
        const int64_t at = wanted[i].number * kBlock - from, stop = std::min(at + kBlock, to - from);
        const auto block = std::make_shared<const std::vector<std::byte>>(bytes.begin() + at, bytes.begin() + stop);
        wanted[i].promise->set_value(block);
        wanted[i].promise = nullptr;
        keep({file, wanted[i].number}, stop - at);
      }
    } catch (...) {
      // Those of later stretches are not fetched any more either, so nobody may wait for them.
      for (Wanted& one : wanted) {
        if (!one.promise) continue;
        const std::lock_guard lock(mutex_);
        const auto entry = entries_.find({file, one.number});
        recent_.erase(entry->second.place);
        entries_.erase(entry);
        one.promise->set_exception(std::current_exception());
      }
      throw;
    }
    begin = end;
  }
}

void BlockCache::read(uint64_t file, int64_t size, int64_t offset, std::span<std::byte> out, const Fetch& fetch) {
  if (out.empty()) return;
  const int64_t stop = offset + static_cast<int64_t>(out.size());
  std::vector<Wanted> wanted = claim(file, offset / kBlock, (stop - 1) / kBlock);
  fetch_claimed(file, size, wanted, fetch);
  for (const Wanted& one : wanted) {
    const Block block = one.block.get();
    const int64_t start = one.number * kBlock;
    const int64_t from = std::max(offset, start), to = std::min(stop, start + static_cast<int64_t>(block->size()));
    std::memcpy(out.data() + (from - offset), block->data() + (from - start), static_cast<size_t>(to - from));
  }
}

void BlockCache::prefetch(uint64_t file, int64_t size, int64_t offset, int64_t length, const Fetch& fetch) {
  if (length <= 0) return;
  std::vector<Wanted> wanted = claim(file, offset / kBlock, (offset + length - 1) / kBlock);
  fetch_claimed(file, size, wanted, fetch);
}

}  // namespace tessera::store
