#include "state/saved_parts.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/error.h"
#include "checkpoint/tiling.h"

namespace tessera::state {
namespace {

struct Holder {
  int64_t process = 0, device = 0;
};

// Where each part of an entry lies, by its offset: the first device of every process that holds it.
std::map<Dims, std::vector<Holder>> holders_of(const StateLayout& layout, size_t entry, int64_t processes) {
  std::map<Dims, std::vector<Holder>> holders;
  const int64_t each = layout.devices() / processes;
  for (int64_t device = 0; device < layout.devices(); ++device) {
    std::vector<Holder>& of_box = holders[shard_box(layout, entry, device).offset];
    if (of_box.empty() || of_box.back().process != device / each) of_box.push_back({device / each, device});
  }
  return holders;
}

}  // namespace

Placed shard_box(const StateLayout& layout, size_t entry, int64_t device) {
  const StateEntry& e = layout.entries[entry];
  return {layout.shard_type(entry).dims, mesh::shard_offset(layout.mesh, e.type.dims, e.spec, device)};
}

SavedPart whole_entry(const StateLayout& layout, size_t entry) {
  const StateEntry& e = layout.entries[entry];
  SavedPart part{entry, whole_box(e.type.dims), {}};
  for (int64_t device = 0; device < layout.devices(); ++device) {
    if (mesh::holds_first_copy(layout.mesh, e.spec, device)) part.devices.push_back(device);
  }
  return part;
}

bool whole_in_each(const StateLayout& layout, int64_t processes) {
  const int64_t each = layout.devices() / processes;
  for (size_t entry = 0; entry < layout.entries.size(); ++entry) {
    for (int64_t device = each; device < layout.devices(); ++device) {
      if (shard_box(layout, entry, device).offset != shard_box(layout, entry, device % each).offset) return false;
    }
  }
  return true;
}

HeldParts::HeldParts(const StateLayout& layout, int64_t process, int64_t processes) {
  const int64_t each = layout.devices() / processes;
  for (size_t i = 0; i < layout.entries.size(); ++i) {
    const StateEntry& entry = layout.entries[i];
    for (int64_t device = process * each; device < (process + 1) * each; ++device) {
      const Placed box = shard_box(layout, i, device);
      if (!entry.stacked()) {
        boxes_[entry.name].push_back(box);
        continue;
      }
      const Placed block{Dims(box.dims.begin() + 1, box.dims.end()), Dims(box.offset.begin() + 1, box.offset.end())};
      for (int64_t part = 0; part < box.dims[0]; ++part) boxes_[entry.part_name(box.offset[0] + part)].push_back(block);
    }
  }
}

bool HeldParts::has(const std::string& array, const Placed& box) const {
  const auto found = boxes_.find(array);
  if (found == boxes_.end()) return false;
  return std::ranges::any_of(
      found->second, [&](const Placed& own) { return own.dims.size() == box.dims.size() && checkpoint::overlap(own, box); });
}

std::vector<std::vector<SavedPart>> share_out(const StateLayout& layout, int64_t processes) {
  TESSERA_CHECK(processes >= 1 && layout.devices() % processes == 0, "{} devices of {} processes", layout.devices(), processes);
  std::vector<std::vector<SavedPart>> parts(static_cast<size_t>(processes));
  std::vector<int64_t> bytes(parts.size(), 0);
  for (size_t entry = 0; entry < layout.entries.size(); ++entry) {
    const auto holders = holders_of(layout, entry, processes);
    std::vector<std::vector<int64_t>> taken(parts.size());
    // A mesh copies all parts of an entry alike.
    const bool shared = std::ranges::any_of(holders, [](const auto& of_box) { return of_box.second.size() > 1; });
    for (const auto& [offset, of_box] : holders) {
      const auto less = [&](const Holder& a, const Holder& b) {
        return bytes[static_cast<size_t>(a.process)] < bytes[static_cast<size_t>(b.process)];
      };
      const Holder& taker = *std::min_element(of_box.begin(), of_box.end(), less);
      taken[static_cast<size_t>(taker.process)].push_back(taker.device);
      bytes[static_cast<size_t>(taker.process)] += byte_count(layout.shard_type(entry));
    }
    for (size_t p = 0; p < parts.size(); ++p) {
      if (taken[p].size() == holders.size()) {
        const Dims& dims = layout.entries[entry].type.dims;
        parts[p].push_back({entry, whole_box(dims), std::move(taken[p]), shared});
        continue;
      }
      for (const int64_t device : taken[p]) parts[p].push_back({entry, shard_box(layout, entry, device), {device}, shared});
    }
  }
  for (std::vector<SavedPart>& own : parts)
    std::stable_partition(own.begin(), own.end(), [](const SavedPart& part) { return !part.shared; });
  return parts;
}

std::vector<checkpoint::GroupRange> group_parts(const StateLayout& layout, const std::vector<SavedPart>& parts) {
  std::vector<NamedType> types;
  for (const SavedPart& part : parts) {
    const StateEntry& entry = layout.entries[part.entry];
    types.push_back({entry.name, {entry.type.dtype, part.box.dims}});
  }
  const auto first_shared = static_cast<size_t>(std::ranges::find(parts, true, &SavedPart::shared) - parts.begin());
  const std::span<const NamedType> all(types);
  std::vector<checkpoint::GroupRange> groups = checkpoint::split_into_groups(all.first(first_shared));
  for (checkpoint::GroupRange group : checkpoint::split_into_groups(all.subspan(first_shared))) {
    group.begin += first_shared;
    group.end += first_shared;
    groups.push_back(group);
  }
  return groups;
}

}  // namespace tessera::state
