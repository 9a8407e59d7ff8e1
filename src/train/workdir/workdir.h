#pragma once
// The directory of a run: what lies in it, whose it is, and whether it may be continued.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/remote/run_copy.h"
#include "config/section.h"
#include "store/file.h"
#include "store/local/lock.h"

namespace tessera::train {

inline constexpr const char* kRecipeFile = "recipe.toml";  // the resolved recipe
// Names begin so of files by which processes see whether they have the same directory (train/run/shared_directory.h).
inline constexpr std::string_view kDirectoryMark = ".shared-";

// Opens a workdir for a resolved recipe, holding its lock.
//
// A `recipe.toml` that is missing is restored from the newest checkpoint, which has it too.
//
// A directory that is new, empty or interrupted before its first recipe was written starts afresh. One that holds a
// `recipe.toml` is continued if the recipe is the same but for keys that don't change the numbers of a run, or whose change is
// meant:
//   log, checkpoint.*, eval_at_start, data.threads, data.prefetch, data.on_error, eval.NAME.every, eval.NAME.skip_first,
//   eval.NAME.at_end, eval.NAME.batch, eval.NAME.predictions, eval.NAME.predictions_format, and those of eval data   how often
//   something is reported or saved, and how fast the input is made; total  a run may be made longer or shorter; its schedule is
//   from then on that of the new length.
// Any other difference, and any other non-empty directory, is a usage Error that lists the keys (or the files) and says what to
// do.
class Workdir {
 public:
  Workdir(std::string path, const std::string& recipe, store::FileSystem& files = store::local_files());

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return store::join_path(path_, "checkpoints"); }
  std::string log() const;  // the console's lines (monitor/sinks/log_file.h)
  // Of files that an evaluator writes, without their endings: …/evals/val_000001000.
  std::string evaluation(const std::string& name, int64_t step) const;
  // The summary of its last evaluation: …/evals/val.last.json.
  std::string last_evaluation(const std::string& name) const;
  // Differences that are allowed, from what is in the directory to what is asked for now.
  const std::vector<config::Difference>& changes() const { return changes_; }
  // Of a run that starts at step 0: throws a data Error where checkpoints were saved in this directory and are gone, while
  // metrics.jsonl still has the run's lines, which a new start would overwrite.
  void expect_nothing_lost() const;
  // Remembers, with a file, that a checkpoint was saved, or that the run starts afresh. Never fail: the directory may be full.
  void mark_saved() noexcept;
  void mark_started() noexcept;
  // Throws a data Error where the directory was removed, renamed or replaced since the start.
  void expect_in_place() const;
  // Where another process may have begun in the directory, because the lock's file was removed: locks it again, with a warning,
  // or throws a data Error when another process has it. Nothing where the directory is not in its place.
  void renew_lock();
  // Tells of a checkpoint that can't be read, and puts a damaged one aside: its step will be saved again.
  void pass_over(const checkpoint::RejectedCheckpoint& bad);
  // The names of the training images (recipe/data_names.h) that the last start wrote; empty where it wrote none.
  std::string data_names() const;
  // Only a help for messages: a directory that is full is a warning.
  void write_data_names(const std::string& names) const;
  // Makes the recipe the directory's own. Call when everything that can fail early has passed.
  void write_recipe();

 private:
  void refuse_links() const;
  void remove_leftovers() const;
  void refuse_other_directory() const;
  std::optional<std::string> recipe_of_checkpoints() const;
  bool started() const;
  void compare();

  std::string path_, recipe_;
  store::FileSystem& files_;
  std::unique_ptr<store::Directory> held_;
  std::unique_ptr<store::DirectoryLock> lock_;
  bool known_ = false, marked_ = false;
  std::vector<config::Difference> changes_;
};

// The resolved recipe of a workdir, or of the workdir that a checkpoint `…/checkpoints/step_…` belongs to; empty when there is
// none.
std::string find_recipe(const std::string& path, store::FileSystem& files = store::local_files());

// For a run in a bucket (checkpoint/remote/run_copy.h): which older checkpoints stay with one.
remote::KeptCheckpoints kept_checkpoints(const std::string& state_json, const std::string& where);

}  // namespace tessera::train
