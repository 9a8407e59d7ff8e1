#pragma once
// A cache in memory of the most recently used blocks of files that are slow to open and fast to send: objects in buckets.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace tessera::store {

// Thread-safe. A thread that wants a block which another one fetches waits for it.
class BlockCache {
 public:
  static constexpr int64_t kBlock = 64 << 10;

  // Fetches bytes [offset, offset + out.size()) of a file whole, or throws.
  using Fetch = std::function<void(int64_t offset, std::span<std::byte> out)>;

  // Keeps blocks of `capacity` bytes in all, those in use besides.
  explicit BlockCache(int64_t capacity) : capacity_(capacity) {}

  // Fills `out` from `offset` of the file of `size` bytes that `file` is the number of, which has them. Neighbouring blocks that
  // are missing are fetched at once. What `fetch` throws leaves here, for every thread that waits for it, and the next read tries
  // again.
  void read(uint64_t file, int64_t size, int64_t offset, std::span<std::byte> out, const Fetch& fetch);
  // Fetches what of these bytes is missing, and waits for nobody else.
  void prefetch(uint64_t file, int64_t size, int64_t offset, int64_t length, const Fetch& fetch);

 private:
  using Key = std::pair<uint64_t, int64_t>;  // file, block
  using Block = std::shared_ptr<const std::vector<std::byte>>;
  struct Entry {
    std::shared_future<Block> block;
    std::list<Key>::iterator place;
    int64_t bytes = 0;  // once it is there
  };
  struct Wanted {
    int64_t number;
    std::shared_future<Block> block;
    std::shared_ptr<std::promise<Block>> promise;  // null: another thread's, or there already
  };

  std::vector<Wanted> claim(uint64_t file, int64_t first, int64_t last);
  void fetch_claimed(uint64_t file, int64_t size, std::vector<Wanted>& wanted, const Fetch& fetch);
  void keep(const Key& key, int64_t bytes);

  const int64_t capacity_;
  std::mutex mutex_;
  int64_t total_ = 0;
  std::list<Key> recent_;  // the most recently used first
  std::map<Key, Entry> entries_;
};

}  // namespace tessera::store
