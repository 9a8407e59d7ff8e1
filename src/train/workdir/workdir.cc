#include "train/workdir/workdir.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text/pattern.h"
#include "base/text/text.h"
#include "checkpoint/commit.h"
#include "checkpoint/directories.h"
#include "monitor/metrics.h"
#include "recipe/keys.h"
#include "recipe/run_identity.h"
#include "state/progress.h"
#include "store/local/leftovers.h"
#include "store/small_file.h"

namespace tessera::train {
namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kLog = "log.txt";
constexpr const char* kNames = "data_names.txt";
constexpr const char* kSaved = ".saved";  // there once a checkpoint was saved
// Files that lines are added to. All others are replaced as a whole, so that a link in their place leads to nothing that changes.
constexpr std::array kGrowing = {kMetrics, "summary.csv", kLog};
// Directories that the run makes and writes into.
constexpr std::array kFolders = {"bad_batches", "evals", "plugins", "report", "tb", "wandb"};

}  // namespace

Workdir::Workdir(std::string path, const std::string& recipe, store::FileSystem& files)
    : path_(std::move(path)), recipe_(recipe), files_(files) {
  const auto info = files_.info(path_);
  if (info && !info->directory) {
    throw usage_error(fmt::format("the workdir `{}` is a file", path_), "--workdir", "name a directory, or a new one");
  }
  if (!info) files_.make_directories(path_);
  held_ = files_.open_directory(path_);
  refuse_links();
  known_ = files_.info(store::join_path(path_, kRecipeFile)).has_value();
  const std::optional<std::string> restored = known_ ? std::nullopt : recipe_of_checkpoints();
  if (!known_ && !restored) refuse_other_directory();
  lock_ = std::make_unique<store::DirectoryLock>(path_);
  remove_leftovers();
  if (restored) {
    store::write_atomic(files_, store::join_path(path_, kRecipeFile), *restored);
    known_ = true;
    log_note(fmt::format("`{}` was missing and is restored from the newest checkpoint", store::join_path(path_, kRecipeFile)));
  }
  if (known_ && started()) compare();
}

// Those in `checkpoints` are the CheckpointManager's.
void Workdir::remove_leftovers() const {
  static const Pattern own(R"(recipe\.toml|run\.json|hosts\.json|data_names\.txt|\.saved|metrics\.jsonl|summary\.csv|log\.txt|)"
                           R"(first_batch\.png|plot\.svg|mlflow\.json)");
  static const std::pair<std::string, Pattern> folders[] = {
      {"evals", Pattern(R"(.+_[0-9]{9,}(\.skipped)?\.[a-z]+|.+\.last\.json)")},
      {"report", Pattern(R"(index\.html|(curves|train|.+_worst)\.png|.+_(classes|confusion|worst)\.csv)")},
      {"tb", Pattern(R"(events\.out\.tfevents\.[0-9]+\.tessera|projector_config\.pbtxt)")}};
  store::remove_leftovers(*held_, [](std::string_view file) { return own.matches(file); });
  for (const auto& [folder, names] : folders) {
    try {
      const auto there = held_->info(folder);
      if (!there || !there->directory) continue;
      store::remove_leftovers(*held_->open(folder),
                              [&pattern = names](std::string_view file) { return pattern.matches(file); });
    } catch (const store::IoError&) {
      // Whoever writes there says what is wrong with it.
    }
  }
}

void Workdir::refuse_links() const {
  const auto refuse = [this](const char* name, const char* what, const char* help) {
    const auto there = held_->info(name);
    if (!there || !there->symlink) return;
    throw usage_error(
        fmt::format("`{}` is a symbolic link, and the run would {} it leads to", store::join_path(path_, name), what), {},
        help);
  };
  for (const char* name : kGrowing)
    refuse(name, "change the file", "remove the link; --log-file writes the console's lines elsewhere");
  for (const char* name : kFolders)
    refuse(name, "write into the directory", "remove the link, or put the directory in its place");
}

void Workdir::refuse_other_directory() const {
  std::vector<std::string> others;
  for (const store::FileInfo& file : files_.list(path_)) {
    const bool own = file.name == ".lock" || file.name == kSaved || file.name == kLog ||
                     file.name.find(kRecipeFile) != std::string::npos || file.name.starts_with("crash-") ||
                     file.name.starts_with(kDirectoryMark);
    if (!own) others.push_back(file.name);
  }
  if (others.empty()) return;
  const size_t shown = std::min<size_t>(others.size(), 5);
  throw usage_error(fmt::format("the workdir `{}` is not empty and holds no run of ours: {}{}", path_,
                                join({others.begin(), others.begin() + static_cast<ptrdiff_t>(shown)}, ", "),
                                others.size() > shown ? ", …" : ""),
                    "--workdir", "name a new or an empty directory; nothing was written");
}

// Nothing where none is of a run: imported weights have no step among their arrays.
std::optional<std::string> Workdir::recipe_of_checkpoints() const {
  checkpoint::LatestCheckpoint latest;
  try {
    latest = checkpoint::find_latest(checkpoints(), files_);
  } catch (const Error& error) {
    if (!checkpoint::is_elsewhere(error)) throw;
    throw usage_error(fmt::format("the workdir `{}` is that of a run on several hosts, and not of its process 0", path_),
                      "--workdir", "make the host process 0 that was it before");
  }
  if (!latest.checkpoint || !latest.checkpoint->arrays.contains("step")) return std::nullopt;
  return state::parse_description(latest.checkpoint->state_json, latest.checkpoint->path).recipe;
}

bool Workdir::started() const {
  if (files_.info(store::join_path(path_, kMetrics))) return true;
  return files_.info(checkpoints()) && !files_.list(checkpoints()).empty();
}

void Workdir::compare() {
  std::vector<config::Difference> refused;
  for (config::Difference& change :
       recipe::changed_keys(store::read_small_file(files_, store::join_path(path_, kRecipeFile)), recipe_)) {
    (recipe::key_may_change(change.key) ? changes_ : refused).push_back(std::move(change));
  }
  if (refused.empty()) return;
  std::string text = fmt::format("the workdir `{}` belongs to another recipe", path_);
  for (const config::Difference& change : refused) {
    text +=
        fmt::format("\n  {} = {}   there: {}", change.key, recipe::shown_value(change.right), recipe::shown_value(change.left));
  }
  throw usage_error(text, store::join_path(path_, kRecipeFile),
                    "name another --workdir, or go back to the values that are there");
}

std::string Workdir::log() const { return store::join_path(path_, kLog); }

std::string Workdir::evaluation(const std::string& name, int64_t step) const {
  return fmt::format("{}/evals/{}_{:09}", path_, name, step);
}

std::string Workdir::last_evaluation(const std::string& name) const {
  return fmt::format("{}/evals/{}.last.json", path_, name);
}

void Workdir::expect_nothing_lost() const {
  const std::string metrics = store::join_path(path_, kMetrics);
  const bool missing = !files_.info(checkpoints());  // it is made before the first line of metrics
  if (!missing && !files_.info(store::join_path(path_, kSaved))) return;
  const std::vector<monitor::MetricRow> rows = monitor::read_metrics(metrics, files_);
  if (rows.empty()) return;
  throw data_error(
      fmt::format("the checkpoints of this run are gone: `{}` {}, and metrics.jsonl goes to step {}", checkpoints(),
                  missing ? "is missing" : "has none", rows.back().step),
      path_,
      fmt::format("put them back to go on; to start afresh, name another --workdir, or move `{}` away, which would "
                  "be overwritten",
                  metrics));
}

void Workdir::mark_saved() noexcept {
  if (std::exchange(marked_, true)) return;
  const std::string path = store::join_path(path_, kSaved);
  try {
    expect_in_place();
    if (!files_.info(path)) store::write_atomic(files_, path, std::string_view("checkpoints of this run were saved\n"));
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception&) {
    // Only a help for expect_nothing_lost().
  }
}

void Workdir::mark_started() noexcept {
  const std::string path = store::join_path(path_, kSaved);
  try {
    if (files_.info(path)) files_.remove_file(path);
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception&) {
    // Likewise.
  }
}

void Workdir::expect_in_place() const {
  const auto there = files_.info(path_);
  if (there && there->id == held_->id()) return;
  throw data_error(
      fmt::format("the workdir `{}` was {} meanwhile, and nothing is written in its place; once it is back, saves go "
                  "there again",
                  path_, there ? "replaced" : "removed or renamed"));
}

void Workdir::renew_lock() {
  const auto there = files_.info(path_);
  if (!there || there->id != held_->id()) return;
  try {
    if (!lock_->renew()) return;
  } catch (const Error& error) {
    throw data_error(fmt::format("`.lock` was removed while the run goes on, and {}", error.message()), path_,
                     "two runs would write one directory, so this one ends; it lost the steps since its last checkpoint");
  }
  log_warning(fmt::format("`{}/.lock` was removed or replaced while the run goes on; the workdir is locked again", path_));
}

void Workdir::pass_over(const checkpoint::RejectedCheckpoint& bad) {
  std::string kept;
  try {
    if (!bad.unfinished) {
      const std::string aside =
          checkpoint::put_aside(files_, checkpoints(), store::last_part(bad.path), checkpoint::kDamagedSuffix);
      kept = fmt::format("; it is now `{}`, which nothing reads or removes", aside);
    }
  } catch (const store::IoError& error) {
    kept = "; " + error.message();
  }
  log_warning(fmt::format("passed over {}: {}{}", bad.path, bad.reason, kept));
}

std::string Workdir::data_names() const {
  const std::string path = store::join_path(path_, kNames);
  return files_.info(path) ? store::read_text(files_, path) : std::string();
}

void Workdir::write_data_names(const std::string& names) const {
  try {
    store::write_atomic(files_, store::join_path(path_, kNames), std::string_view(names));
  } catch (const Error& error) {
    log_warning(fmt::format("the training images are not listed: {}", error.message()));
  }
}

void Workdir::write_recipe() {
  store::write_atomic(files_, store::join_path(path_, kRecipeFile), recipe_);
  known_ = true;
}

std::string find_recipe(const std::string& path, store::FileSystem& files) {
  std::string place = path;
  while (place.size() > 1 && place.back() == '/') place.pop_back();
  for (int level = 0; level < 3; ++level) {
    const std::string file = store::join_path(place, kRecipeFile);
    if (files.info(file)) return store::read_small_file(files, file);
    place = store::parent_path(place);
  }
  return {};
}

remote::KeptCheckpoints kept_checkpoints(const std::string& state_json, const std::string& where) {
  const state::Progress progress = state::parse_progress(state_json, where);
  remote::KeptCheckpoints kept;
  if (progress.best_checkpoint) kept.best.push_back(progress.best_checkpoint->step);
  for (const state::BestCheckpoint& one : progress.runners_up) kept.best.push_back(one.step);
  for (const config::Difference& key : config::difference("", state::parse_description(state_json, where).recipe)) {
    if (key.key == "checkpoint.keep_every") kept.others = true;
  }
  return kept;
}

}  // namespace tessera::train
