#pragma once
// The devices of a run as a grid of named axes: "replica=2, fsdp=4". Axis names are those that shardings speak of:
//   replica  copies of the parameters; the batch is split over it
//   fsdp     parameters and optimizer state are split over it, and the batch too
//   tensor   heads and hidden features are split over it

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::mesh {

// "replica", "fsdp", "tensor".
const std::vector<std::string>& axis_names();

struct Axis {
  std::string name;
  int64_t size = 1;
};

// Axes in the order written, the first one varying slowest over the devices. Sizes multiply to the number of devices.
struct Mesh {
  std::vector<Axis> axes;

  int64_t devices() const;
  // 1 for an axis that the mesh does not have.
  int64_t size(std::string_view axis) const;
  std::string text() const;  // "replica=2, fsdp=4"
};

// One size may be -1: what the others leave. Empty text is "replica=-1". Throws a usage Error at `where` for an unknown axis, a
// size below 1, an axis named twice, or sizes that do not multiply to `devices` (the sizes that would are listed).
Mesh parse_mesh(std::string_view text, int64_t devices, std::string_view where = {});

}  // namespace tessera::mesh
