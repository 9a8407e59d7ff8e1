#include "mesh/partition.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::mesh {
namespace {

// The device's position along `axis`.
int64_t coordinate(const Mesh& mesh, int64_t device, std::string_view axis) {
  int64_t stride = mesh.devices();
  for (const Axis& a : mesh.axes) {
    stride /= a.size;
    if (a.name == axis) return device / stride % a.size;
  }
  return 0;
}

int64_t part_index(const Mesh& mesh, const AxisNames& axes, int64_t device) {
  int64_t index = 0;
  for (const std::string& axis : axes) index = index * mesh.size(axis) + coordinate(mesh, device, axis);
  return index;
}

}  // namespace

bool PartitionSpec::replicated() const {
  return std::all_of(dims.begin(), dims.end(), [](const AxisNames& axes) { return axes.empty(); });
}

bool PartitionSpec::uses(std::string_view axis) const {
  return std::any_of(dims.begin(), dims.end(),
                     [&](const AxisNames& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); });
}

std::string PartitionSpec::text() const {
  if (replicated()) return "replicate";
  std::vector<std::string> texts;
  for (const AxisNames& axes : dims) texts.push_back(axes.empty() ? "_" : join(axes, "+"));
  return "spec(" + join(texts, ", ") + ")";
}

bool PartitionSpec::operator==(const PartitionSpec& other) const {
  static const AxisNames kWhole;
  for (size_t i = 0; i < std::max(dims.size(), other.dims.size()); ++i) {
    if ((i < dims.size() ? dims[i] : kWhole) != (i < other.dims.size() ? other.dims[i] : kWhole)) return false;
  }
  return true;
}

AxisNames batch_axes(const Mesh& mesh) {
  AxisNames axes;
  for (const Axis& axis : mesh.axes) {
    if (axis.size > 1 && axis.name != "tensor") axes.push_back(axis.name);
  }
  return axes;
}

int64_t batch_parts(const Mesh& mesh) { return parts(mesh, batch_axes(mesh)); }

bool batch_follows_processes(const Mesh& mesh, int64_t processes) {
  const int64_t all = batch_parts(mesh);
  if (all % processes != 0 || mesh.devices() % processes != 0) return false;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const int64_t part = shard_offset(mesh, {all}, {{batch_axes(mesh)}}, device)[0];
    if (part / (all / processes) != device / (mesh.devices() / processes)) return false;
  }
  return true;
}

int64_t parts(const Mesh& mesh, const AxisNames& axes) {
  int64_t count = 1;
  for (const std::string& axis : axes) count *= mesh.size(axis);
  return count;
}

Dims shard_dims(const Mesh& mesh, const Dims& dims, const PartitionSpec& spec) {
  TESSERA_CHECK(spec.dims.size() <= dims.size(), "{} for {}", spec.text(), to_string(dims));
  Dims shard = dims;
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    const int64_t count = parts(mesh, spec.dims[i]);
    TESSERA_CHECK(dims[i] % count == 0, "{} can't be cut into {} along dimension {}", to_string(dims), count, i);
    shard[i] /= count;
  }
  return shard;
}

Dims shard_offset(const Mesh& mesh, const Dims& dims, const PartitionSpec& spec, int64_t device) {
  const Dims shard = shard_dims(mesh, dims, spec);
  Dims offset(dims.size(), 0);
  for (size_t i = 0; i < spec.dims.size(); ++i) offset[i] = shard[i] * part_index(mesh, spec.dims[i], device);
  return offset;
}

bool holds_first_copy(const Mesh& mesh, const PartitionSpec& spec, int64_t device) {
  return std::all_of(mesh.axes.begin(), mesh.axes.end(),
                     [&](const Axis& axis) { return spec.uses(axis.name) || coordinate(mesh, device, axis.name) == 0; });
}

PartitionSpec without_axes(const PartitionSpec& spec, const AxisNames& axes) {
  PartitionSpec out = spec;
  for (AxisNames& dim : out.dims) {
    std::erase_if(dim, [&](const std::string& a) { return std::find(axes.begin(), axes.end(), a) != axes.end(); });
  }
  return out;
}

PartitionSpec without_first_dim(const PartitionSpec& spec) {
  if (spec.dims.empty()) return {};
  TESSERA_CHECK(spec.dims[0].empty(), "{} splits the blocks of a stacked array", spec.text());
  return {std::vector<AxisNames>(spec.dims.begin() + 1, spec.dims.end())};
}

}  // namespace tessera::mesh
