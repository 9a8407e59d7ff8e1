#include "ir/sharding.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tessera::ir {

std::string sharding_text(const mesh::PartitionSpec& spec, int64_t rank) {
  TESSERA_CHECK(static_cast<int64_t>(spec.dims.size()) <= rank, "{} for an array of rank {}", spec.text(), rank);
  std::string dims;
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
    std::string axes;
    if (i < spec.dims.size()) {
      for (const std::string& axis : spec.dims[i]) axes += fmt::format("{}\"{}\"", axes.empty() ? "" : ", ", axis);
    }
    dims += fmt::format("{}{{{}}}", i == 0 ? "" : ", ", axes);
  }
  return fmt::format("#sdy.sharding<@mesh, [{}]>", dims);
}

std::string mesh_text(const mesh::Mesh& mesh) {
  std::string axes;
  for (const mesh::Axis& axis : mesh.axes) axes += fmt::format("{}\"{}\"={}", axes.empty() ? "" : ", ", axis.name, axis.size);
  return fmt::format("sdy.mesh @mesh = <[{}]>", axes);
}

}  // namespace tessera::ir
