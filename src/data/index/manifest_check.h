#pragma once
// Shards against the manifest beside them, so that a conversion that was killed, or shards that were cut short or lost on the way,
// are not taken for a smaller data set.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::data {

// The samples of each shard, where manifests tell them of all. Throws a data Error at `where` for a shard of another size than
// its manifest says, where another shard of the same split is missing, for shards of a conversion that did not end, and where
// the list of their classes is not what was written.
std::optional<std::vector<int64_t>> check_manifests(const std::vector<std::string>& paths, const std::string& where);

// A shard that is not what its manifest says.
struct DamagedShard {
  std::string path, reason;
};
// Reads every shard that a manifest lists, and compares its SHA-256, in the order of `paths`.
std::vector<DamagedShard> find_damaged_shards(const std::vector<std::string>& paths, int threads);

}  // namespace tessera::data
