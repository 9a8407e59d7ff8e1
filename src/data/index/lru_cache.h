#pragma once
// A cache of values that are expensive to make and can be made again; it keeps the most recently used: open files, indexes of
// shards, decompressed groups of records.

#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace tessera::data {

// Thread-safe. While a thread makes a value, others that want the same wait for it. Values in use live on when they are dropped
// here.
template <class Key, class T>
class LruCache {
 public:
  struct Made {
    std::shared_ptr<const T> value;
    int64_t cost = 1;
  };

  // Keeps values while their costs sum to no more than `capacity`, and always the latest.
  explicit LruCache(int64_t capacity) : capacity_(capacity) {}

  // The value of `key`, from make() where it is not here. What make() throws leaves here, for every thread that waits.
  template <class Make>
  std::shared_ptr<const T> get(const Key& key, Make&& make) {
    std::unique_lock lock(mutex_);
    if (const auto found = places_.find(key); found != places_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      const auto value = found->second->value;
      lock.unlock();
      return value.get();
    }
    std::promise<std::shared_ptr<const T>> promise;
    const auto place = entries_.insert(entries_.begin(), Entry{key, promise.get_future().share(), kMaking});
    places_[key] = place;
    lock.unlock();
    try {
      Made made = make();
      promise.set_value(made.value);
      lock.lock();
      place->cost = made.cost;
      total_ += made.cost;
      drop(place);
      return made.value;
    } catch (...) {
      promise.set_exception(std::current_exception());
      lock.lock();
      places_.erase(key);
      entries_.erase(place);
      throw;
    }
  }

 private:
  static constexpr int64_t kMaking = -1;
  struct Entry {
    Key key;
    std::shared_future<std::shared_ptr<const T>> value;
    int64_t cost;
  };
  using Place = typename std::list<Entry>::iterator;

  void drop(Place newest) {
    for (auto it = entries_.end(); total_ > capacity_ && it != entries_.begin();) {
      --it;
      if (it->cost == kMaking || it == newest) continue;
      total_ -= it->cost;
      places_.erase(it->key);
      it = entries_.erase(it);
    }
  }

  int64_t capacity_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the latest first
  std::unordered_map<Key, Place> places_;
  int64_t total_ = 0;
};

}  // namespace tessera::data
