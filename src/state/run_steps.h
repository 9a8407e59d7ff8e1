#pragma once
// Lists the checkpoints of a run by their names.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::state {

// The steps of the checkpoints in <run>/checkpoints in ascending order, whether or not each is whole. Leaves out saves that
// have not ended, which have no COMMIT, and damaged checkpoints that were put aside. Nothing where the run has no checkpoints/.
std::optional<std::vector<int64_t>> saved_steps(const std::string& run);

}  // namespace tessera::state
