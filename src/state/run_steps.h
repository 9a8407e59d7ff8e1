#pragma once
// Which checkpoints there are of a run, by their names.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::state {

// The steps of <run>/checkpoints, rising, whole or not; saves that have not ended, and damaged ones that were put aside, left
// out. Nothing where the directory has no checkpoints/.
std::optional<std::vector<int64_t>> saved_steps(const std::string& run);

}  // namespace tessera::state
