#pragma once
// How one array lies on a mesh: which axes split which of its dimensions.
//
// Devices are numbered row-major over the mesh's axes. An array whose dimension is split over axes a, b (in this order) is cut
// into size(a) * size(b) equal parts along it, part i going to the devices whose coordinates (a, b) are i in row-major order.
// Axes that no dimension names hold copies.

#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.h"
#include "mesh/mesh.h"

namespace tessera::mesh {

using AxisNames = std::vector<std::string>;

// For each dimension the axes that split it, major first. A list shorter than the rank leaves the other dimensions whole.
struct PartitionSpec {
  std::vector<AxisNames> dims;

  // True when no dimension is split.
  bool replicated() const;
  // True when some dimension is split over `axis`.
  bool uses(std::string_view axis) const;
  // "spec(_, fsdp, replica+tensor)": as rules write it; "replicate" when nothing is split.
  std::string text() const;
  // Equal up to trailing whole dimensions.
  bool operator==(const PartitionSpec& other) const;
};

// The axes a batch is split over: those of {"replica", "fsdp"} that the mesh has with more than one device.
AxisNames batch_axes(const Mesh& mesh);
// In how many parts a batch is cut.
int64_t batch_parts(const Mesh& mesh);

// Whether each of `processes`, to which equal runs of the devices belong, has an equal run of a batch's rows on its devices, in the
// order of the processes.
bool batch_follows_processes(const Mesh& mesh, int64_t processes);

// The number of parts of a dimension that is split over `axes`.
int64_t parts(const Mesh& mesh, const AxisNames& axes);
// The dimensions of each device's part. Every split dimension must be divisible: anything else is our own bug.
Dims shard_dims(const Mesh& mesh, const Dims& dims, const PartitionSpec& spec);
// Where the part of `device` begins in each dimension.
Dims shard_offset(const Mesh& mesh, const Dims& dims, const PartitionSpec& spec, int64_t device);
// True when no device with a lower number holds the same part: the one that is saved.
bool holds_first_copy(const Mesh& mesh, const PartitionSpec& spec, int64_t device);

// The spec without some axes, and without its first dimension (of one block's slice of a stacked array).
PartitionSpec without_axes(const PartitionSpec& spec, const AxisNames& axes);
PartitionSpec without_first_dim(const PartitionSpec& spec);

}  // namespace tessera::mesh
