#pragma once
// What a run will write into its workdir, told before it begins.

#include <cstdint>
#include <optional>
#include <string>

#include "recipe/recipe.h"
#include "state/state.h"

namespace tessera::train {

struct DiskNeed {
  int64_t checkpoint_bytes = 0;  // of one
  int64_t checkpoints = 0;       // there at once, at most: those kept and the one being written
  int64_t metrics_bytes = 0;     // of metrics.jsonl at the end, about
  int64_t file_bytes = 0;        // of the arrays in the largest file of a checkpoint; its header comes on top

  double bytes() const;
};
// `writers`: how many processes write a checkpoint together.
DiskNeed disk_need(const recipe::Recipe& recipe, const state::StateLayout& layout, int64_t writers = 1);

// What to warn of where `need` is more than `free` bytes and the `there` bytes of checkpoints that are written already; nothing
// where it fits.
std::optional<std::string> space_warning(const DiskNeed& need, const std::string& workdir, double there, double free);

// The same of the file system as it is now. Nothing where it doesn't tell.
std::optional<std::string> space_warning(const DiskNeed& need, const std::string& workdir);

// A device Error where a checkpoint has a file of more than `limit` bytes: none could be saved, and nothing changes that while
// the process lives.
void expect_files_fit(const DiskNeed& need, int64_t limit);

// The same of the process's limit (`ulimit -f`).
void expect_files_fit(const DiskNeed& need);

// What to warn of where metrics.jsonl grows beyond `limit` bytes, from which moment on no save succeeds; nothing else.
std::optional<std::string> file_size_warning(const DiskNeed& need, int64_t limit);

// The same of the process's limit.
std::optional<std::string> file_size_warning(const DiskNeed& need);

}  // namespace tessera::train
