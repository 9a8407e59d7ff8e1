#include "state/run_steps.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "store/file.h"

namespace tessera::state {

std::optional<std::vector<int64_t>> saved_steps(const std::string& run) {
  store::FileSystem& files = store::local_files();
  const std::string checkpoints = store::join_path(run, "checkpoints");
  if (!files.info(checkpoints)) return std::nullopt;
  std::vector<int64_t> steps;
  for (const store::FileInfo& entry : files.list(checkpoints)) {
    const auto name = checkpoint::parse_directory_name(entry.name);
    if (!name || name->writer) continue;
    const std::string commit = store::join_path(store::join_path(checkpoints, entry.name), checkpoint::kCommitFile);
    if (files.info(commit)) steps.push_back(name->step);
  }
  std::ranges::sort(steps);
  return steps;
}

}  // namespace tessera::state
