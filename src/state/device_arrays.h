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

// The list of one of this process's devices. For arrays that every device has whole, any list will do.
std::vector<pjrt::Buffer>& own_list(DeviceArrays& arrays);

// Uploads the first `count` entries. `read` fills host memory of a shard's size for each shard. The buffers are named after
// their entries.
DeviceArrays to_device(const StateLayout& layout, size_t count, const ReadBox& read, const pjrt::Client& client);
// The same from whole host arrays, for as many entries as `arrays` has.
DeviceArrays to_device(const StateLayout& layout, const HostArrays& arrays, const pjrt::Client& client);
// Replaces one entry.
void put_entry(const StateLayout& layout, size_t entry, const store::Bytes& whole, const pjrt::Client& client,
               DeviceArrays& arrays);

// Copies a whole entry to host memory and waits for it. Each part comes from the first device that has it, which must belong to
// this process. The copy stays valid when a later step donates the buffers.
store::Bytes to_host(const StateLayout& layout, const DeviceArrays& arrays, size_t entry);

// Puts a whole copy of an array on every device of this process, as lists of one entry each.
DeviceArrays replicate(const pjrt::Client& client, const mesh::Mesh& mesh, const void* values, const TensorType& type);
// Cuts an array by rows (its first dimension) over the mesh's batch axes, and copies the parts to the devices in the
// background. Gives an upload for each device of the mesh; those of other processes' devices are empty. `data` has this
// process's rows of the batch (mesh::batch_follows_processes), and `type` is their type.
std::vector<pjrt::Upload> send_rows(const pjrt::Client& client, const mesh::Mesh& mesh, const void* values,
                                    const TensorType& type);

void name_entries(const StateLayout& layout, DeviceArrays& arrays);

// The state as a snapshot. Its groups are copied from the devices when their turn comes. Where several processes save, it has
// the groups that this one writes (saved_parts.h). The layout and the arrays must outlive it.
checkpoint::Snapshot state_snapshot(const StateLayout& layout, const DeviceArrays& arrays,
                                    const checkpoint::Writers& writers = {});

// Lists of arguments for Executable::execute: for each device `count` entries from `first` on, then what `more` has for the
// device.
using ArgumentLists = std::vector<std::vector<pjrt::Buffer*>>;
ArgumentLists argument_lists(DeviceArrays& arrays, size_t count, DeviceArrays* more = nullptr, size_t first = 0);
// Appends to each device's list what `more` has for the device.
void append_arguments(ArgumentLists& lists, DeviceArrays& more);

}  // namespace tessera::state
