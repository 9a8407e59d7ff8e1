#pragma once
// Which process writes which part of a state to a checkpoint.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/box.h"
#include "checkpoint/snapshot.h"
#include "state/state.h"

namespace tessera::state {

// A box of an entry, and devices of one process that together hold it: one, or for a whole array one for each of its parts.
struct SavedPart {
  size_t entry = 0;
  Placed box;
  std::vector<int64_t> devices;
};

// The part of an entry that a device holds.
Placed shard_box(const StateLayout& layout, size_t entry, int64_t device);
// An entry's parts on the mesh, each once, on the first device that holds it: the whole entry.
SavedPart whole_entry(const StateLayout& layout, size_t entry);

// Whether the devices of each of `processes`, to which equal runs of the mesh's devices belong, have the whole state, and each
// process its parts in the same order: what one reads part by part can be told to all.
bool whole_in_each(const StateLayout& layout, int64_t processes);

// What the devices of one of `processes`, to which equal runs of the mesh's devices belong, hold: boxes of the arrays of a
// checkpoint, by name.
class HeldParts {
 public:
  HeldParts(const StateLayout& layout, int64_t process, int64_t processes);
  // Whether a device holds anything of that box of the array.
  bool has(const std::string& array, const Placed& box) const;

 private:
  std::map<std::string, std::vector<Placed>> boxes_;
};

// For each of `processes`, to which equal runs of the mesh's devices belong, what it saves, by entry: together everything once.
// An array is saved whole where one process holds all its parts, else part by part. Where several processes hold a part, the
// one with the fewest bytes so far saves it, so that all processes come to the same answer and the work is even.
std::vector<std::vector<SavedPart>> share_out(const StateLayout& layout, int64_t processes);

// Which of a process's parts stand in one file.
std::vector<checkpoint::GroupRange> group_parts(const StateLayout& layout, const std::vector<SavedPart>& parts);

}  // namespace tessera::state
