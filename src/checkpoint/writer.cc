#include "checkpoint/writer.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/directories.h"
#include "checkpoint/slices.h"
#include "store/encoding/crc32c.h"
#include "store/url.h"

namespace tessera::checkpoint {
namespace {

std::string temporary_name(const std::string& path, const Writers& writers) {
  return writers.several() ? path : fmt::format("{}.tmp-{}", path, getpid());
}

}  // namespace

CheckpointWriter::CheckpointWriter(store::FileSystem& files, std::string directory, int64_t step, FileNumbers numbers,
                                   std::string run, Writers writers, int64_t save, store::Directory* held)
    : files_(files),
      directory_(std::move(directory)),
      path_(store::join_path(directory_, step_directory(step))),
      temporary_(temporary_name(path_, writers)),
      numbers_(numbers),
      writers_(std::move(writers)),
      held_(held) {
  TESSERA_CHECK(step >= 0 && numbers.all >= 1 && numbers.all <= kMaxGroups && numbers.first + numbers.own <= numbers.all,
                "step {}, {} groups from {} on of {}", step, numbers.own, numbers.first, numbers.all);
  TESSERA_CHECK(writers_.several() || numbers.own == numbers.all, "{} of {} groups", numbers.own, numbers.all);
  if (writers_.several()) joint_.emplace(writers_, save);
  commit_.step = step;
  commit_.run = std::move(run);
  commit_.version = numbers.all > 1 || writers_.several() ? kPiecesVersion : kPlainVersion;
  if (!writers_.other_directories().empty()) commit_.version = kHostsVersion;
}

CheckpointWriter::~CheckpointWriter() { give_up("it ended"); }

std::string CheckpointWriter::give_up(const std::string& why) {
  if (std::exchange(ended_, true)) return why;
  std::string reason = joint_ ? joint_->give_up(why) : why;
  try {
    if (has_place_ || !in_place()) remove_written();  // else an older checkpoint has the place
  } catch (const InternalError&) {
    throw;
  } catch (...) {
    // What was left over is removed by the next sweep.
  }
  return reason;
}

void CheckpointWriter::begin() {
  if (std::exchange(begun_, true)) return;
  if (in_place()) return begin_together();
  if (!held_) files_.make_directories(directory_);
  remove_temporary();
  make_directory();
}

// Where the writers' directory is held open, by no path, which would make again what was moved away meanwhile.
void CheckpointWriter::make_directory() {
  if (!held_) return files_.make_directories(temporary_);
  const std::string name = store::last_part(temporary_);
  if (!held_->info(name)) held_->make_directory(name);
  held_->sync();
}

// The first one says how the files are called, and who leads a directory makes it ready for them.
void CheckpointWriter::begin_together() {
  if (!writers_.leads()) take_prefix(joint_->await_first());
  if (!writers_.leads_directory()) return joint_->await_directory();
  begin_in_place();
  joint_->begin(prefix_);
}

// A checkpoint of the step that is there already, as one that owed an evaluation, stays until COMMIT lists the new files. They
// get other names for that.
void CheckpointWriter::begin_in_place() {
  const std::string commit = store::join_path(path_, kCommitFile);
  Condition condition = Condition::kHalfRemoved;
  if (files_.info(commit)) {
    std::string text = store::read_text(files_, commit);
    condition = condition_in_place(text);
    if (condition == Condition::kWhole && writers_.leads()) {
      take_prefix(other_prefix(parse_commit(text, commit)));
      replaced_ = std::move(text);
    }
  }
  // On another host stays what the first one's COMMIT may list, whatever the one there is.
  const bool stays = !prefix_.empty() && condition != Condition::kOtherRun;
  const bool remote = store::is_remote(path_);
  if (!stays && !remote) make_room(condition);
  has_place_ = true;
  stays || !remote ? expect_own() : remove_temporary();
  make_directory();
}

// Of the step's COMMIT here. Nobody else writes into the run's bucket.
Condition CheckpointWriter::condition_in_place(const std::string& text) const {
  try {
    const Commit there = parse_commit(text, store::join_path(path_, kCommitFile));
    if (store::is_remote(path_)) return Condition::kWhole;
    if (writers_.leads()) return condition_of(files_, path_, commit_.run);
    const bool own = there.run.empty() || commit_.run.empty() || there.run == commit_.run;
    return own ? Condition::kWhole : Condition::kOtherRun;
  } catch (const Error& error) {
    if (!is_damage(error)) throw;  // of a newer version
    return Condition::kDamaged;
  }
}

// On a disk. On another host the first process's has no checkpoint of the step: what is there is none either.
void CheckpointWriter::make_room(Condition condition) {
  if (condition == Condition::kHalfRemoved) return remove_checkpoint(files_, directory_, store::last_part(path_));
  put_step_aside(condition);
}

void CheckpointWriter::take_prefix(std::string prefix) {
  prefix_ = std::move(prefix);
  if (!prefix_.empty()) commit_.version = std::max(commit_.version, kPrefixVersion);
}

void CheckpointWriter::write_group(const std::vector<HostTensor>& tensors) {
  begin();
  TESSERA_CHECK(commit_.files.size() < numbers_.own, "more than {} groups", numbers_.own);
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  Shapes shapes;
  for (const HostTensor& tensor : tensors) {
    TESSERA_CHECK(tensor.name.find(kSliceMark) == std::string::npos, "array `{}`", tensor.name);
    const Placed place = tensor.place();
    const auto error = add_piece(arrays_, tensor.name, tensor.type, {place, {}});
    TESSERA_CHECK(!error, "array `{}`: {}", tensor.name, *error);
    if (tensor.is_slice()) shapes[tensor.name] = tensor.type.dims;
    views.push_back(
        {tensor.is_slice() ? slice_name(tensor.name, place.offset) : tensor.name, tensor.data_type(), tensor.data.data});
  }
  Metadata metadata{{"format", "tessera"}, {"step", std::to_string(commit_.step)}};
  if (!shapes.empty()) {
    metadata[kShapesKey] = shapes_text(shapes);
    commit_.version = std::max(commit_.version, kPiecesVersion);
  }
  const std::string name = prefix_ + state_file_name(numbers_.first + commit_.files.size(), numbers_.all);
  const FileSum sum = write_safetensors(files_, store::join_path(temporary_, name), views, metadata);
  commit_.files.push_back({name, sum.size, sum.crc32c});
}

std::string CheckpointWriter::commit(const std::string& state_json, const std::function<void()>& before_commit) {
  begin();
  TESSERA_CHECK(commit_.files.size() == numbers_.own, "{} of {} groups", commit_.files.size(), numbers_.own);
  if (in_place()) {
    commit_together(state_json, before_commit);
    return path_;
  }
  check_whole();
  commit_.files.push_back(write_state_json(state_text(state_json)));
  if (before_commit) before_commit();
  write_commit();
  files_.sync_directory(temporary_);
  take_name();
  return path_;
}

// The first one's COMMIT is what makes it a checkpoint, and so comes last.
void CheckpointWriter::commit_together(const std::string& state_json, const std::function<void()>& before_commit) {
  files_.sync_directory(path_);
  joint_->hand_in(commit_);
  if (writers_.leads()) {
    gather();
    const std::string text = state_text(state_json);
    commit_.files.push_back(write_state_json(text));
    if (before_commit) before_commit();
    files_.sync_directory(path_);
    joint_->commit_elsewhere(commit_, text);
    write_commit();
  } else {
    if (writers_.leads_directory()) commit_on_other_host();
    joint_->await_commit(path_);
  }
  ended_ = true;
  if (writers_.leads_directory()) remove_replaced();
  if (writers_.leads()) joint_->end(commit_);
}

void CheckpointWriter::commit_on_other_host() {
  JointSave::ToCommit order = joint_->await_order(path_);
  commit_ = std::move(order.commit);
  write_state_json(order.state_json);
  files_.sync_directory(path_);
  write_commit();
  joint_->committed_here();
}

void CheckpointWriter::check_whole() {
  const auto error = finish_pieces(arrays_);
  TESSERA_CHECK(!error, "array `{}`: {}", error->name, error->what);
}

// The files of all writers. Their headers say what they hold; the contents are as each of them has written and summed them. What
// is on other hosts is compared by those who read it.
void CheckpointWriter::gather() {
  const std::string run = commit_.run;
  commit_ = joint_->await_parts();
  commit_.run = run;
  TESSERA_CHECK(commit_.step == parse_directory_name(path_.substr(path_.rfind('/') + 1))->step, "step {}", commit_.step);
  TESSERA_CHECK(commit_.files.size() == numbers_.all, "{} of {} files", commit_.files.size(), numbers_.all);
  std::vector<std::string> paths;
  for (size_t i = 0; i < commit_.files.size(); ++i) {
    const std::string& name = commit_.files[i].name;
    TESSERA_CHECK(name == prefix_ + state_file_name(i, numbers_.all), "file {} is `{}`", i, name);
    paths.push_back(store::join_path(path_, name));
  }
  if (commit_.version == kHostsVersion) return;
  const std::vector<SafetensorsFile> written = open_headers(paths, files_);
  for (size_t i = 0; i < written.size(); ++i) {
    const int64_t size = written[i].size(), meant = commit_.files[i].size;
    if (size != meant) throw damaged_file(paths[i], fmt::format("it has {} bytes, {} were written", size, meant));
  }
  collect_arrays(written, /*sliced=*/true, path_);
}

// From here on the checkpoint exists.
void CheckpointWriter::take_name() {
  // A checkpoint of this name is one that owed an evaluation, or of a run that was set back to an earlier step.
  bool replaces = files_.info(path_).has_value();
  const Condition condition = replaces ? condition_of(files_, path_, commit_.run) : Condition::kWhole;
  if (condition != Condition::kWhole) {
    put_step_aside(condition);
    replaces = false;
  }
  replaces ? files_.exchange(temporary_, path_) : files_.rename(temporary_, path_);
  ended_ = true;
  files_.sync_directory(directory_);
  if (!replaces) return;
  try {
    remove_temporary();
  } catch (const Error&) {
    // The old one, removed by the next sweep.
  }
}

// What is there of the step and is no checkpoint of the run: a person may look at it.
void CheckpointWriter::put_step_aside(Condition condition) {
  const bool other_run = condition == Condition::kOtherRun;
  const char* const why = other_run ? "of another run" : condition == Condition::kWhole ? "not on process 0's host" : "damaged";
  const std::string aside = put_aside(files_, directory_, store::last_part(path_), other_run ? "other_run" : kDamagedSuffix);
  log_warning(fmt::format("`{}` was there already and is {}; it is now `{}`", path_, why, aside));
}

// COMMIT lists the new files.
void CheckpointWriter::remove_replaced() noexcept {
  if (prefix_.empty()) return;
  try {
    expect_own();
    remove_unlisted(files_, path_, commit_);
  } catch (const InternalError&) {
    std::terminate();
  } catch (...) {
    // They go with the checkpoint.
  }
}

// Without COMMIT. One that is on its way to a server, or that it took and did not say so, finds its files in the place of the
// older one's: they stay until the step is saved again or removed. So do those of other hosts than the first's, where the COMMIT
// that was there may be another one than the first's.
void CheckpointWriter::remove_written() {
  const std::string commit = store::join_path(temporary_, kCommitFile);
  if (prefix_.empty()) {
    // A process that was taken for dead, and goes on, must not remove what the next start of the run has committed meanwhile.
    const bool anothers = in_place() && files_.info(commit) && store::read_text(files_, commit) != commit_text(commit_);
    if (!anothers) remove_temporary();
    return;
  }
  if (commit_is_sent_ || !replaced_) return;
  expect_own();
  if (store::read_text(files_, commit) == *replaced_) remove_unlisted(files_, path_, parse_commit(*replaced_, commit));
}

void CheckpointWriter::remove_temporary() {
  expect_own();
  remove_checkpoint(files_, directory_, store::last_part(temporary_));
}

std::string CheckpointWriter::state_text(const std::string& state_json) const {
  nlohmann::ordered_json json;
  json["format_version"] = commit_.version;
  json["step"] = commit_.step;
  json["state"] = parse_ordered_json(state_json, "the state of a run");
  return json.dump(2) + "\n";
}

CommittedFile CheckpointWriter::write_state_json(const std::string& text) {
  const std::string name = prefix_ + std::string(kStateJsonFile);
  write_file(store::join_path(temporary_, name), text);
  return {name, static_cast<int64_t>(text.size()), store::crc32c(store::as_bytes(text))};
}

void CheckpointWriter::write_commit() {
  commit_is_sent_ = true;
  const std::string path = store::join_path(temporary_, kCommitFile), text = commit_text(commit_);
  in_place() ? store::write_atomic(files_, path, std::string_view(text)) : write_file(path, text);
}

void CheckpointWriter::write_file(const std::string& path, const std::string& text) {
  const auto file = files_.create(path);
  file->write(store::as_bytes(text));
  file->sync();
  file->close();
}

}  // namespace tessera::checkpoint
