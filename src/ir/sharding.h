#pragma once
// Shardings as the Shardy dialect writes them.

#include <cstdint>
#include <string>

#include "mesh/partition.h"

namespace tessera::ir {

// `#sdy.sharding<@mesh, [{}, {"replica", "fsdp"}]>` for an array of this rank.
std::string sharding_text(const mesh::PartitionSpec& spec, int64_t rank);
// The module's line `sdy.mesh @mesh = <["replica"=2, "fsdp"=4]>`.
std::string mesh_text(const mesh::Mesh& mesh);

}  // namespace tessera::ir
