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

namespace tessera::checkpoint {
namespace {

std::string temporary_name(const std::string& path, const Writers& writers, int64_t save) {
  if (writers.words) return path;
  return writers.several() ? fmt::format("{}.tmp-{}.{}", path, writers.first_pid, save)
                           : fmt::format("{}.tmp-{}", path, getpid());
}

}  // namespace

CheckpointWriter::CheckpointWriter(store::FileSystem& files, std::string directory, int64_t step, FileNumbers numbers,
                                   Writers writers, int64_t save, store::Directory* held)
    : files_(files),
      directory_(std::move(directory)),
      path_(store::join_path(directory_, step_directory(step))),
      temporary_(temporary_name(path_, writers, save)),
      numbers_(numbers),
      writers_(std::move(writers)),
      held_(held) {
  TESSERA_CHECK(step >= 0 && numbers.all >= 1 && numbers.all <= kMaxGroups && numbers.first + numbers.own <= numbers.all,
                "step {}, {} groups from {} on of {}", step, numbers.own, numbers.first, numbers.all);
  TESSERA_CHECK(writers_.several() || numbers.own == numbers.all, "{} of {} groups", numbers.own, numbers.all);
  TESSERA_CHECK(writers_.several() || !writers_.words);
  if (writers_.several()) joint_.emplace(files_, held_, temporary_, writers_, save);
  commit_.step = step;
  commit_.version = numbers.all > 1 || writers_.several() ? kPiecesVersion : kPlainVersion;
}

CheckpointWriter::~CheckpointWriter() { give_up("it ended"); }

std::string CheckpointWriter::give_up(const std::string& why) {
  if (std::exchange(ended_, true)) return why;
  std::string reason = joint_ ? joint_->give_up(why) : why;
  try {
    if (writers_.leads() && (has_place_ || !in_place())) remove_written();  // else an older checkpoint has the place
  } catch (const InternalError&) {
    throw;
  } catch (...) {
    // What was left over is removed by the next sweep.
  }
  return reason;
}

void CheckpointWriter::begin() {
  if (std::exchange(begun_, true)) return;
  if (!writers_.leads()) return take_prefix(joint_->await_directory());
  if (in_place()) return begin_in_place();
  if (!held_) files_.make_directories(directory_);
  remove_temporary();
  if (!held_) return files_.make_directories(temporary_);
  // By no path, which would make again what was moved away meanwhile.
  const std::string name = store::last_part(temporary_);
  if (!held_->info(name)) held_->make_directory(name);
  held_->sync();
}

// A checkpoint of the step that is there already, as one that owed an evaluation, stays until COMMIT lists the new files. They
// get other names for that.
void CheckpointWriter::begin_in_place() {
  const std::string commit = store::join_path(path_, kCommitFile);
  if (files_.info(commit)) {
    std::string text = store::read_text(files_, commit);
    try {
      take_prefix(other_prefix(parse_commit(text, commit)));
      replaced_ = std::move(text);
    } catch (const Error& error) {
      if (!is_damage(error)) throw;  // of a newer version; a damaged one goes
    }
  }
  has_place_ = true;
  if (replaced_) {
    if (writers_.expect_own) writers_.expect_own();
  } else {
    remove_temporary();
    files_.make_directories(temporary_);
  }
  joint_->begin(prefix_);
}

void CheckpointWriter::take_prefix(std::string prefix) {
  prefix_ = std::move(prefix);
  if (!prefix_.empty()) commit_.version = kPrefixVersion;
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

std::string CheckpointWriter::commit(const std::string& state_json, const std::function<void()>& before_commit,
                                     const std::string& run) {
  begin();
  TESSERA_CHECK(commit_.files.size() == numbers_.own, "{} of {} groups", commit_.files.size(), numbers_.own);
  if (joint_) joint_->hand_in(commit_);
  if (!writers_.leads()) {
    joint_->await_commit(path_);
    ended_ = true;
    return path_;
  }
  joint_ ? gather() : check_whole();
  commit_.run = run;
  write_state_json(state_json);
  if (before_commit) before_commit();
  write_commit();
  if (!in_place()) files_.sync_directory(temporary_);
  in_place() ? commit_in_place() : take_name();
  if (joint_) joint_->end(path_, commit_);
  return path_;
}

void CheckpointWriter::check_whole() {
  const auto error = finish_pieces(arrays_);
  TESSERA_CHECK(!error, "array `{}`: {}", error->name, error->what);
}

// The files of all writers. Their headers say what they hold; the contents are as each of them has written and summed them.
void CheckpointWriter::gather() {
  commit_ = joint_->await_parts();
  TESSERA_CHECK(commit_.step == parse_directory_name(path_.substr(path_.rfind('/') + 1))->step, "step {}", commit_.step);
  TESSERA_CHECK(commit_.files.size() == numbers_.all, "{} of {} files", commit_.files.size(), numbers_.all);
  std::vector<std::string> paths;
  for (size_t i = 0; i < commit_.files.size(); ++i) {
    const std::string& name = commit_.files[i].name;
    TESSERA_CHECK(name == prefix_ + state_file_name(i, numbers_.all), "file {} is `{}`", i, name);
    paths.push_back(store::join_path(temporary_, name));
  }
  const std::vector<SafetensorsFile> written = open_headers(paths, files_);
  for (size_t i = 0; i < written.size(); ++i) {
    const int64_t size = written[i].size(), meant = commit_.files[i].size;
    if (size != meant) throw damaged_file(paths[i], fmt::format("it has {} bytes, {} were written", size, meant));
  }
  collect_arrays(written, /*sliced=*/true, temporary_);
}

// From here on the checkpoint exists.
void CheckpointWriter::take_name() {
  // A checkpoint of this name is one that owed an evaluation, or of a run that was set back to an earlier step.
  bool replaces = files_.info(path_).has_value();
  const Condition condition = replaces ? condition_of(files_, path_, commit_.run) : Condition::kWhole;
  if (condition != Condition::kWhole) {
    const bool other_run = condition == Condition::kOtherRun;
    const std::string aside = put_aside(files_, directory_, store::last_part(path_), other_run ? "other_run" : kDamagedSuffix);
    log_warning(fmt::format("`{}` was there already and is {}; it is now `{}`", path_, other_run ? "of another run" : "damaged",
                            aside));
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

// COMMIT is there.
void CheckpointWriter::commit_in_place() noexcept {
  ended_ = true;
  if (!replaced_) return;
  try {
    if (writers_.expect_own) writers_.expect_own();
    remove_unlisted(files_, path_, commit_);
  } catch (const InternalError&) {
    std::terminate();
  } catch (...) {
    // They go with the checkpoint.
  }
}

// Without COMMIT. One that is on its way to a server, or that it took and did not say so, finds its files in the place of the
// older one's: they stay until the step is saved again or removed.
void CheckpointWriter::remove_written() {
  if (!replaced_) return remove_temporary();
  if (commit_is_sent_) return;
  if (writers_.expect_own) writers_.expect_own();
  const std::string commit = store::join_path(path_, kCommitFile);
  if (store::read_text(files_, commit) == *replaced_) remove_unlisted(files_, path_, parse_commit(*replaced_, commit));
}

// A process that was taken for dead, and goes on, must not remove what the next start of the run has committed meanwhile.
void CheckpointWriter::remove_temporary() {
  if (writers_.expect_own) writers_.expect_own();
  remove_checkpoint(files_, directory_, store::last_part(temporary_));
}

void CheckpointWriter::write_state_json(const std::string& state_json) {
  nlohmann::ordered_json json;
  json["format_version"] = commit_.version;
  json["step"] = commit_.step;
  json["state"] = parse_ordered_json(state_json, "the state of a run");
  const std::string text = json.dump(2) + "\n";
  const std::string name = prefix_ + std::string(kStateJsonFile);
  const auto file = files_.create(store::join_path(temporary_, name));
  file->write(store::as_bytes(text));
  file->sync();
  file->close();
  commit_.files.push_back({name, static_cast<int64_t>(text.size()), store::crc32c(store::as_bytes(text))});
}

void CheckpointWriter::write_commit() {
  commit_is_sent_ = true;
  const auto file = files_.create(store::join_path(temporary_, kCommitFile));
  file->write(store::as_bytes(commit_text(commit_)));
  file->sync();
  file->close();
}

}  // namespace tessera::checkpoint
