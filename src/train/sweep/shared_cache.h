#pragma once
// Decoded pictures that all runs of a sweep share, where its recipe has each run keep them in memory: `data.cache = "ram(8 GiB)"`.

#include <cstdint>
#include <string>

#include "cluster/launch/processes/plan.h"
#include "config/section.h"
#include "train/sweep/variants.h"

namespace tessera::sweep {

// Bytes that the recipe's caches in memory take at most, of training and of evaluators together; 0: it has none.
int64_t memory_caches(config::Section recipe);
// Whether runs of these variants read the same samples, as far as the keys tell. Those of others fill a cache beyond its limit.
bool read_the_same(const Variant& variant);

// A directory of this user's in memory, removed with all that is in it at the end. A sweep that is killed leaves it, and the same
// sweep takes it up.
class SharedCache {
 public:
  // `sweep`: the directory of all runs. `memory`: a file system in memory. A data Error where another user has such a directory.
  explicit SharedCache(const std::string& sweep, const std::string& memory);
  ~SharedCache();
  SharedCache(const SharedCache&) = delete;
  SharedCache& operator=(const SharedCache&) = delete;

  const std::string& path() const { return path_; }
  // By which a run learns of it (data/cache/cache.h).
  launch::Variable variable() const;

 private:
  std::string path_;
};

}  // namespace tessera::sweep
