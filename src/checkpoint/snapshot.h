#pragma once
// The contents of a checkpoint that is to be written: arrays in groups, each read when its turn comes.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/box.h"
#include "base/shape.h"
#include "checkpoint/formats/safetensors.h"
#include "store/encoding/bytes.h"

namespace tessera::checkpoint {

// A named array in host memory, or a slice of one.
struct HostTensor {
  std::string name;             // without '@'
  TensorType type;              // of the whole array
  store::Bytes data;            // row-major; as many bytes as `data_type()` asks for
  std::optional<Placed> slice;  // the part of the array that `data` is; nothing: all of it

  // False for a slice that is all of the array.
  bool is_slice() const { return slice && slice->dims != type.dims; }
  TensorType data_type() const { return {type.dtype, slice ? slice->dims : type.dims}; }
  // Where the data stand in the whole array.
  Placed place() const { return slice ? *slice : whole_box(type.dims); }
};

// The arrays of one file. A sliced array may have its slices in several groups; together they must cover it, each element once.
struct SnapshotGroup {
  int64_t bytes = 0;                              // of all the data that `read` gives
  std::function<std::vector<HostTensor>()> read;  // called once, on the thread that saves; memory stays unchanged until written
};

// Everything one checkpoint holds.
struct Snapshot {
  int64_t step = 0;                     // 0 <= step
  std::vector<SnapshotGroup> groups;    // one gives `state.safetensors`, N give `state-00001-of-0000N.safetensors`, …
  size_t groups_before = 0;             // of processes with lower numbers that write the same checkpoint (joint_save.h),
  size_t groups_after = 0;              // and of those with higher ones
  std::string state_json = "{}";        // any JSON value: data position, seeds, …
  std::string run = {};                 // whose it is: checkpoints of other runs are neither replaced nor removed; may be empty
  std::vector<int64_t> best = {};       // steps of checkpoints that stay besides the keep rules; this one may be among them
  std::function<void()> before_commit;  // called on the writer thread before COMMIT is written: make the metrics durable here
  std::function<void()> after_commit = {};  // called likewise once COMMIT is written, before older ones go; must not throw
  // Called once on the writer thread when the save has ended, with why it failed; empty: it was committed. Must not throw.
  std::function<void(const std::string& failure)> ended;

  size_t all_groups() const { return groups_before + groups.size() + groups_after; }
  // Adds a group of arrays that are in memory already (`data.owner` keeps them alive).
  void add(std::vector<HostTensor> tensors);
};

// More groups than this are our own bug: their list would not fit the COMMIT file.
inline constexpr size_t kMaxGroups = 10'000;

// A run of a list of arrays: [begin, end).
struct GroupRange {
  size_t begin = 0, end = 0;
  int64_t bytes = 0;  // of its arrays
  bool operator==(const GroupRange&) const = default;
};

inline constexpr int64_t kGroupBytes = int64_t{1} << 30;

// Cuts a list of arrays (or of slices, with the slices' types) into groups of at most `max_bytes`, in order. An array larger
// than that has a group of its own. No arrays: no groups.
std::vector<GroupRange> split_into_groups(std::span<const NamedType> arrays, int64_t max_bytes = kGroupBytes);

}  // namespace tessera::checkpoint
