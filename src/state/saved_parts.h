#pragma once
// Decides which process writes which part of a state to a checkpoint. Equal runs of the mesh's devices belong to each of
// `processes`.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/box.h"
#include "checkpoint/snapshot.h"
#include "state/state.h"

namespace tessera::state {

// A box of an entry, and the devices of one process that hold it together: one device, or for a whole array one for each of its
// parts.
struct SavedPart {
  size_t entry = 0;
  Placed box;
  std::vector<int64_t> devices;
  bool shared = false;  // other processes hold some of it too
};

// The part of an entry that a device holds.
Placed shard_box(const StateLayout& layout, size_t entry, int64_t device);
// A whole entry: each of its parts on the mesh once, on the first device that holds it.
SavedPart whole_entry(const StateLayout& layout, size_t entry);

// Whether the devices of each process have the whole state, and all processes have its parts in the same order. Then one
// process can read the parts and send them to the others.
bool whole_in_each(const StateLayout& layout, int64_t processes);

// What the devices of one process hold: boxes of the arrays of a checkpoint, by name.
class HeldParts {
 public:
  HeldParts(const StateLayout& layout, int64_t process, int64_t processes);
  // Whether one of the devices holds anything of that box of the array.
  bool has(const std::string& array, const Placed& box) const;

 private:
  std::map<std::string, std::vector<Placed>> boxes_;
};

// What each process saves, by entry; together they save everything once. An array is saved whole where one process holds all
// its parts, and otherwise part by part. Where several processes hold a part, the one with the fewest bytes so far saves it. So
// all processes come to the same answer, and the work is even. Shared parts come behind the others.
std::vector<std::vector<SavedPart>> share_out(const StateLayout& layout, int64_t processes);

// Groups a process's parts: those of a group go into one file. Shared parts have files of their own, so that processes that go on
// in the same places need no others of each other's files.
std::vector<checkpoint::GroupRange> group_parts(const StateLayout& layout, const std::vector<SavedPart>& parts);

}  // namespace tessera::state
