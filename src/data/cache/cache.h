#pragma once
// Samples kept nearer than their source: a recipe's `data.cache`.
//   none
//   ram(8 GiB)            decoded pictures, in memory: for data that fits and is met more than once
//   disk(path, 100 GiB)   the files' bytes, on a disk quicker than where the source is
//   disk(path, 100 GiB, decoded=true)   decoded pictures there, for several processes; in memory where `path` is below /dev/shm
//
// What comes out of a chain is the same with and without, byte for byte. A cache takes samples as they are first read until the
// limit is reached, and then no more: with every epoch in another order none is worth more than another. The limit holds for
// all data sets of a section together.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/source.h"
#include "image/codec/decode.h"

namespace tessera::data {

struct CacheOptions {
  enum class Kind { kNone, kRam, kDisk };
  Kind kind = Kind::kNone;
  std::string path;      // of kDisk
  int64_t limit = 0;     // bytes
  bool decoded = false;  // of kDisk
  bool shared = false;   // of kDisk: by runs at the same time, of a sweep; no key says so
};

// An environment variable: a directory in memory where processes share the decoded pictures that each would keep in its own memory.
inline constexpr const char* kSharedCache = "TESSERA_SHARED_CACHE";

// Throws a usage Error at `where`.
CacheOptions parse_cache(std::string_view text, std::string_view where = {});

// How much of a limit is used. Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(int64_t limit) : limit_(limit) {}
  // Whether `bytes` more are within the limit; they then count as used.
  bool take(int64_t bytes);
  void give_back(int64_t bytes) { used_ -= bytes; }
  // Counts what is used already.
  void add(int64_t bytes) { used_ += bytes; }
  int64_t used() const { return used_; }
  int64_t limit() const { return limit_; }

 private:
  int64_t limit_;
  std::atomic<int64_t> used_ = 0;
};

// `source` with decoded pictures kept in memory. A picture is decoded whole when it is first read, as far as there is room for
// it. Those that can't be decoded within the limits, or only with damage, are left as they are. The budget counts the pictures
// and what keeps them.
std::shared_ptr<const Source> cache_in_ram(std::shared_ptr<const Source> source, std::shared_ptr<ByteBudget> budget,
                                           const image::DecodeLimits& limits = {});

// `source` with its files' bytes kept in a folder of `path`, one file a sample, from one run to the next. The folder's name
// follows from the source's name, call and number of samples. A sample that an earlier run kept is taken when its id is the same and
// the file it came from has not changed since (Source::stamp, asked for once a run and sample); else it is read and kept anew.
// What has no stamp isn't kept, and of a Parquet row that only names its image the image isn't looked at. A file that is
// damaged or can't be written is read from the source as if it weren't there. The budget counts the files, those of earlier
// runs too, and those of other processes that use the folder once they are met.
// `decoded`: pictures are kept decoded, within these limits; one that can't be, or only with damage, is kept as its file.
// What an earlier run kept beyond the limit is removed, unless the folder is `shared` with runs that may be reading it.
std::shared_ptr<const Source> cache_on_disk(std::shared_ptr<const Source> source, const std::string& path,
                                            std::shared_ptr<ByteBudget> budget,
                                            const std::optional<image::DecodeLimits>& decoded = std::nullopt,
                                            bool shared = false);

// The source itself for kNone. `budget` is of options.limit.
std::shared_ptr<const Source> cached(std::shared_ptr<const Source> source, const CacheOptions& options,
                                     const std::shared_ptr<ByteBudget>& budget, const image::DecodeLimits& limits = {});

}  // namespace tessera::data
