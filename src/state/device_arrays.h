#pragma once
// Arrays of a state on the devices of its mesh, and their way to and from host memory, shard by shard.

#include <cstddef>
#include <functional>
#include <vector>

#include "base/box.h"
#include "checkpoint/joint_save.h"
#include "checkpoint/snapshot.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "state/state.h"

namespace tessera::state {

// [device][entry]: each device's shards, as the layout lists entries. On one device the shards are the arrays. The lists of
// devices of other processes are empty.
using DeviceArrays = std::vector<std::vector<pjrt::Buffer>>;

// Copies a box of an entry, row-major and dense, to `out`.
using ReadBox = std::function<void(size_t entry, const Placed& box, std::byte* out)>;

// The list of a device of this process: of what is whole on every device, any of them has it.
std::vector<pjrt::Buffer>& own_list(DeviceArrays& arrays);

// The first `count` entries, each shard read by `read` into host memory of its size. The buffers are named after their entries.
DeviceArrays to_device(const StateLayout& layout, size_t count, const ReadBox& read, const pjrt::Client& client);
// The same from whole arrays: as many entries as there are.
DeviceArrays to_device(const StateLayout& layout, const HostArrays& arrays, const pjrt::Client& client);
// Replaces one entry.
void put_entry(const StateLayout& layout, size_t entry, const store::Bytes& whole, const pjrt::Client& client,
               DeviceArrays& arrays);

// One entry whole in host memory, waiting, from the first devices that hold its parts, which have to be this process's. What a
// donated step would take away is safe afterwards.
store::Bytes to_host(const StateLayout& layout, const DeviceArrays& arrays, size_t entry);
// All entries that are there.
HostArrays to_host(const StateLayout& layout, const DeviceArrays& arrays);

// An array on every device of this process whole, as lists of one entry each.
DeviceArrays replicate(const pjrt::Client& client, const mesh::Mesh& mesh, const void* data, const TensorType& type);
// The rows (first dimension) of an array cut over the mesh's batch axes, copied in the background: an upload for each device of
// the mesh, empty for those of other processes. `data` are this process's rows of the batch (mesh::batch_follows_processes), `type` is theirs.
std::vector<pjrt::Upload> send_rows(const pjrt::Client& client, const mesh::Mesh& mesh, const void* data,
                                    const TensorType& type);

void name_entries(const StateLayout& layout, DeviceArrays& arrays);

// The state as a snapshot, whose groups are copied from the devices when their turn comes; of several processes the groups that
// this one writes (saved_parts.h). Both the layout and the arrays must outlive it.
checkpoint::Snapshot state_snapshot(const StateLayout& layout, const DeviceArrays& arrays,
                                    const checkpoint::Writers& writers = {});

// Lists of arguments for Executable::execute: `count` entries of each device from `first` on, then what `more` has for it.
using ArgumentLists = std::vector<std::vector<pjrt::Buffer*>>;
ArgumentLists argument_lists(DeviceArrays& arrays, size_t count, DeviceArrays* more = nullptr, size_t first = 0);
// Each list goes on with what `more` has for its device.
void append_arguments(ArgumentLists& lists, DeviceArrays& more);

}  // namespace tessera::state
