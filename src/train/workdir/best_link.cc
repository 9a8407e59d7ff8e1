#include "train/workdir/best_link.h"

#include <exception>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/commit.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

void link_to(const fs::path& link, const fs::path& target) {
  std::error_code error;
  if (fs::read_symlink(link, error) == target) return;
  fs::path made = link;
  made += ".new";  // a kill may have left one
  fs::remove(made, error);
  fs::create_directory_symlink(target, made);
  fs::rename(made, link);
}

}  // namespace

void link_best(const std::string& workdir, std::optional<int64_t> step) noexcept {
  try {
    const fs::path link = fs::path(workdir) / "best";
    const fs::file_status there = fs::symlink_status(link);
    if (fs::exists(there) && !fs::is_symlink(there)) return;
    if (step)
      link_to(link, fs::path("checkpoints") / checkpoint::step_directory(*step));
    else
      fs::remove(link);
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception&) {
    // Only a help: the path of the best checkpoint is said at the end of the run.
  }
}

}  // namespace tessera::train
