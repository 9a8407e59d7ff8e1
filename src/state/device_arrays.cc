#include "state/device_arrays.h"

#include <algorithm>

#include "base/error.h"
#include "state/saved_parts.h"

namespace tessera::state {
namespace {

// Waits.
store::Bytes read_part(const StateLayout& layout, const DeviceArrays& arrays, const SavedPart& part) {
  const TensorType shard = layout.shard_type(part.entry);
  const TensorType type{shard.dtype, part.box.dims};
  auto memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(byte_count(type)));
  const std::span<std::byte> out(*memory);
  const auto shard_of = [&](int64_t device) -> const pjrt::Buffer& {
    const std::vector<pjrt::Buffer>& list = arrays[static_cast<size_t>(device)];
    TESSERA_CHECK(part.entry < list.size(), "device {} has no part of {} here", device, layout.entries[part.entry].name);
    return list[part.entry];
  };
  if (shard.dims == type.dims) {
    shard_of(part.devices[0]).to_host(out.data(), out.size()).await();
    return {memory, out};
  }
  std::vector<std::byte> piece(static_cast<size_t>(byte_count(shard)));
  for (const int64_t device : part.devices) {
    shard_of(device).to_host(piece.data(), piece.size()).await();
    copy_common(shard_box(layout, part.entry, device), piece.data(), part.box, out.data(), element_bytes(type.dtype));
  }
  return {memory, out};
}

std::vector<checkpoint::HostTensor> read_parts(const StateLayout& layout, const DeviceArrays& arrays,
                                               const std::vector<SavedPart>& parts) {
  std::vector<checkpoint::HostTensor> tensors;
  for (const SavedPart& part : parts) {
    const store::Bytes values = read_part(layout, arrays, part);
    for (checkpoint::HostTensor& tensor : split_blocks(layout.entries[part.entry], part.box, values))
      tensors.push_back(std::move(tensor));
  }
  return tensors;
}

ReadBox from_whole(const StateLayout& layout, const std::function<const store::Bytes&(size_t)>& arrays) {
  return [&layout, arrays](size_t entry, const Placed& box, std::byte* out) {
    const TensorType& type = layout.entries[entry].type;
    const store::Bytes& whole = arrays(entry);
    TESSERA_CHECK(static_cast<int64_t>(whole.size()) == byte_count(type), "{}", layout.entries[entry].name);
    copy_common(whole_box(type.dims), whole.data.data(), box, out, element_bytes(type.dtype));
  };
}

// Devices that hold the same part share one reading.
std::vector<pjrt::Buffer> upload_entry(const StateLayout& layout, size_t entry, const ReadBox& read,
                                       const pjrt::Client& client) {
  const TensorType type = layout.shard_type(entry);
  const auto devices = static_cast<size_t>(layout.devices());
  std::vector<std::byte> memory(static_cast<size_t>(byte_count(type)));
  std::vector<pjrt::Buffer> shards(devices);
  for (size_t first = 0; first < devices; ++first) {
    if (!shards[first].empty() || !client.is_own(first)) continue;
    const Placed box = shard_box(layout, entry, static_cast<int64_t>(first));
    read(entry, box, memory.data());
    for (size_t d = first; d < devices; ++d) {
      if (client.is_own(d) && shard_box(layout, entry, static_cast<int64_t>(d)).offset == box.offset)
        shards[d] = client.to_device(memory.data(), type, d);
    }
  }
  return shards;
}

}  // namespace

std::vector<pjrt::Buffer>& own_list(DeviceArrays& arrays) {
  const auto own = std::ranges::find_if(arrays, [](const auto& list) { return !list.empty(); });
  TESSERA_CHECK(own != arrays.end(), "no device of this process has an array");
  return *own;
}

DeviceArrays to_device(const StateLayout& layout, size_t count, const ReadBox& read, const pjrt::Client& client) {
  DeviceArrays arrays(static_cast<size_t>(layout.devices()));
  for (size_t i = 0; i < count; ++i) {
    std::vector<pjrt::Buffer> shards = upload_entry(layout, i, read, client);
    for (size_t d = 0; d < arrays.size(); ++d) {
      if (client.is_own(d)) arrays[d].push_back(std::move(shards[d]));
    }
  }
  name_entries(layout, arrays);
  return arrays;
}

DeviceArrays to_device(const StateLayout& layout, const HostArrays& arrays, const pjrt::Client& client) {
  const auto whole = [&](size_t entry) -> const store::Bytes& { return arrays[entry]; };
  return to_device(layout, arrays.size(), from_whole(layout, whole), client);
}

void put_entry(const StateLayout& layout, size_t entry, const store::Bytes& whole, const pjrt::Client& client,
               DeviceArrays& arrays) {
  const auto only = [&](size_t) -> const store::Bytes& { return whole; };
  std::vector<pjrt::Buffer> shards = upload_entry(layout, entry, from_whole(layout, only), client);
  for (size_t d = 0; d < arrays.size(); ++d) {
    if (!client.is_own(d)) continue;
    arrays[d][entry] = std::move(shards[d]);
    arrays[d][entry].set_name(layout.entries[entry].name);
  }
}

store::Bytes to_host(const StateLayout& layout, const DeviceArrays& arrays, size_t entry) {
  return read_part(layout, arrays, whole_entry(layout, entry));
}

DeviceArrays replicate(const pjrt::Client& client, const mesh::Mesh& mesh, const void* values, const TensorType& type) {
  DeviceArrays arrays(static_cast<size_t>(mesh.devices()));
  for (size_t d = 0; d < arrays.size(); ++d) {
    if (client.is_own(d)) arrays[d].push_back(client.to_device(values, type, d));
  }
  return arrays;
}

std::vector<pjrt::Upload> send_rows(const pjrt::Client& client, const mesh::Mesh& mesh, const void* values,
                                    const TensorType& type) {
  const mesh::PartitionSpec by_rows{{mesh::batch_axes(mesh)}};
  Dims batch = type.dims;
  batch[0] *= client.group().processes;
  const TensorType part{type.dtype, mesh::shard_dims(mesh, batch, by_rows)};
  const int64_t row_bytes = byte_count(type) / type.dims[0], own_first = client.group().process * type.dims[0];
  std::vector<pjrt::Upload> uploads(static_cast<size_t>(mesh.devices()));
  for (size_t device = 0; device < uploads.size(); ++device) {
    if (!client.is_own(device)) continue;
    const int64_t first = mesh::shard_offset(mesh, batch, by_rows, static_cast<int64_t>(device))[0] - own_first;
    TESSERA_CHECK(first >= 0 && first + part.dims[0] <= type.dims[0], "rows of device {} are another process's", device);
    uploads[device] = client.to_device_async(static_cast<const std::byte*>(values) + first * row_bytes, part, device);
  }
  return uploads;
}

void name_entries(const StateLayout& layout, DeviceArrays& arrays) {
  for (std::vector<pjrt::Buffer>& list : arrays) {
    for (size_t i = 0; i < list.size(); ++i) list[i].set_name(layout.entries[i].name);
  }
}

checkpoint::Snapshot state_snapshot(const StateLayout& layout, const DeviceArrays& arrays, const checkpoint::Writers& writers) {
  const std::vector<std::vector<SavedPart>> shares = share_out(layout, writers.count);
  checkpoint::Snapshot snapshot;
  for (size_t p = 0; p < shares.size(); ++p) {
    const std::vector<checkpoint::GroupRange> ranges = group_parts(layout, shares[p]);
    const auto process = static_cast<int64_t>(p);
    if (process < writers.index) snapshot.groups_before += ranges.size();
    if (process > writers.index) snapshot.groups_after += ranges.size();
    if (process != writers.index) continue;
    for (const checkpoint::GroupRange& range : ranges) {
      const std::vector<SavedPart> parts(shares[p].begin() + static_cast<ptrdiff_t>(range.begin),
                                         shares[p].begin() + static_cast<ptrdiff_t>(range.end));
      snapshot.groups.push_back({range.bytes, [&layout, &arrays, parts] { return read_parts(layout, arrays, parts); }});
    }
  }
  return snapshot;
}

ArgumentLists argument_lists(DeviceArrays& arrays, size_t count, DeviceArrays* more, size_t first) {
  ArgumentLists lists(arrays.size());
  for (size_t d = 0; d < arrays.size(); ++d) {
    if (arrays[d].empty()) continue;  // another process's
    for (size_t i = first; i < first + count; ++i) lists[d].push_back(&arrays[d][i]);
  }
  if (more) append_arguments(lists, *more);
  return lists;
}

void append_arguments(ArgumentLists& lists, DeviceArrays& more) {
  for (size_t d = 0; d < lists.size(); ++d) {
    for (pjrt::Buffer& buffer : more[d]) lists[d].push_back(&buffer);
  }
}

}  // namespace tessera::state
