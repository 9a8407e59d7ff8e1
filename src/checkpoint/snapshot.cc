#include "checkpoint/snapshot.h"

namespace tessera::checkpoint {

void Snapshot::add(std::vector<HostTensor> tensors) {
  SnapshotGroup group;
  for (const HostTensor& tensor : tensors) group.bytes += static_cast<int64_t>(tensor.data.size());
  group.read = [tensors = std::move(tensors)] { return tensors; };
  groups.push_back(std::move(group));
}

std::vector<GroupRange> split_into_groups(std::span<const NamedType> arrays, int64_t max_bytes) {
  std::vector<GroupRange> groups;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const int64_t bytes = byte_count(arrays[i].type);
    if (groups.empty() || groups.back().bytes > max_bytes - bytes) groups.push_back({i, i, 0});
    groups.back().end = i + 1;
    groups.back().bytes += bytes;
  }
  return groups;
}

}  // namespace tessera::checkpoint
