#include "train/workdir/disk_space.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "base/error.h"
#include "base/system/file_calls.h"
#include "base/text/text.h"
#include "checkpoint/commit.h"
#include "state/saved_parts.h"
#include "store/file.h"

namespace tessera::train {
namespace {

// A line has some thirty numbers; an evaluator adds a few.
constexpr int64_t kLineBytes = 800;

int64_t times(int64_t every, int64_t total) { return every > 0 ? std::max<int64_t>(1, total / every) : 1; }

// Of those that new ones will take the place of.
double bytes_of_checkpoints(const std::string& path) {
  store::FileSystem& files = store::local_files();
  double bytes = 0;
  if (!files.info(path)) return bytes;
  for (const store::FileInfo& entry : files.list(path)) {
    const auto name = checkpoint::parse_directory_name(entry.name);
    if (!name || name->writer || !entry.directory) continue;
    for (const store::FileInfo& file : files.list(store::join_path(path, entry.name))) bytes += static_cast<double>(file.size);
  }
  return bytes;
}

// Nothing where there is none.
std::optional<int64_t> file_size_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur > static_cast<rlim_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(limit.rlim_cur);
}

}  // namespace

double DiskNeed::bytes() const {
  return static_cast<double>(checkpoint_bytes) * static_cast<double>(checkpoints) + static_cast<double>(metrics_bytes);
}

DiskNeed disk_need(const recipe::Recipe& recipe, const state::StateLayout& layout, int64_t writers) {
  DiskNeed need;
  for (const state::StateEntry& entry : layout.entries) need.checkpoint_bytes += byte_count(entry.type);
  for (const std::vector<state::SavedPart>& parts : state::share_out(layout, writers)) {
    for (const checkpoint::GroupRange& file : state::group_parts(layout, parts)) {
      need.file_bytes = std::max(need.file_bytes, file.bytes);
    }
  }
  need.checkpoints = recipe.checkpoint.keep + 1 + (recipe.best ? recipe.checkpoint.keep_best : 0);
  const bool only_when_due = !recipe.best || recipe.best->of_training();
  if (only_when_due) need.checkpoints = std::min(need.checkpoints, times(recipe.checkpoint_every, recipe.total));
  if (recipe.keep_every > 0) need.checkpoints += recipe.total / recipe.keep_every;
  need.metrics_bytes = times(recipe.log_every, recipe.total) * kLineBytes;
  return need;
}

std::optional<std::string> space_warning(const DiskNeed& need, const std::string& workdir, double there, double free) {
  if (need.bytes() <= there + free) return std::nullopt;
  return fmt::format(
      "the run will need {} in `{}` ({} checkpoints of {}, {} of metrics), and {} are free: when the disk is full, saves fail. "
      "Free "
      "some space, keep fewer (checkpoint.keep, keep_every, best), or choose another --workdir",
      human_bytes(std::max(need.bytes() - there, 0.0)), workdir, need.checkpoints,
      human_bytes(static_cast<double>(need.checkpoint_bytes)), human_bytes(static_cast<double>(need.metrics_bytes)),
      human_bytes(free));
}

std::optional<std::string> space_warning(const DiskNeed& need, const std::string& workdir) {
  const FileCall call("looking at", workdir);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(workdir, error);
  if (error) return std::nullopt;
  return space_warning(need, workdir, bytes_of_checkpoints(store::join_path(workdir, "checkpoints")),
                       static_cast<double>(space.available));
}

void expect_files_fit(const DiskNeed& need, int64_t limit) {
  if (need.file_bytes <= limit) return;
  throw device_error(
      fmt::format("no checkpoint could be saved: files may have {} at most (`ulimit -f`), and a file of it has {}",
                  human_bytes(static_cast<double>(limit)), human_bytes(static_cast<double>(need.file_bytes))),
      "", "raise the limit before the program starts: `ulimit -f unlimited`");
}

void expect_files_fit(const DiskNeed& need) {
  if (const auto limit = file_size_limit()) expect_files_fit(need, *limit);
}

std::optional<std::string> file_size_warning(const DiskNeed& need, int64_t limit) {
  if (need.metrics_bytes <= limit) return std::nullopt;
  return fmt::format(
      "files may have {} at most (`ulimit -f`), and metrics.jsonl will have about {}, without which there is no save: later "
      "saves will fail. Raise the limit, or write fewer lines (log)",
      human_bytes(static_cast<double>(limit)), human_bytes(static_cast<double>(need.metrics_bytes)));
}

std::optional<std::string> file_size_warning(const DiskNeed& need) {
  const auto limit = file_size_limit();
  return limit ? file_size_warning(need, *limit) : std::nullopt;
}

}  // namespace tessera::train
