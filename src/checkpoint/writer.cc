#include "checkpoint/writer.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/slices.h"
#include "store/crc32c.h"

namespace tessera::checkpoint {

CheckpointWriter::CheckpointWriter(store::FileSystem& files, std::string directory, int64_t step, size_t groups)
    : files_(files),
      directory_(std::move(directory)),
      path_(store::join_path(directory_, step_directory(step))),
      temporary_(fmt::format("{}.tmp-{}", path_, getpid())),
      groups_(groups) {
  TESSERA_CHECK(step >= 0 && groups >= 1 && groups <= kMaxGroups, "step {}, {} groups", step, groups);
  commit_.step = step;
  commit_.version = groups > 1 ? kPiecesVersion : kPlainVersion;
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  try {
    if (files_.info(temporary_)) store::remove_tree(files_, temporary_);
  } catch (...) {
    // What was left over is removed by the next sweep.
  }
}

void CheckpointWriter::begin() {
  files_.make_directories(directory_);
  if (files_.info(temporary_)) store::remove_tree(files_, temporary_);
  files_.make_directories(temporary_);
}

void CheckpointWriter::write_group(const std::vector<HostTensor>& tensors) {
  if (commit_.files.empty()) begin();
  TESSERA_CHECK(commit_.files.size() < groups_, "more than {} groups", groups_);
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
    commit_.version = kPiecesVersion;
  }
  const std::string name = state_file_name(commit_.files.size(), groups_);
  const FileSum sum = write_safetensors(files_, store::join_path(temporary_, name), views, metadata);
  commit_.files.push_back({name, sum.size, sum.crc32c});
}

std::string CheckpointWriter::commit(const std::string& state_json, const std::function<void()>& before_commit) {
  TESSERA_CHECK(commit_.files.size() == groups_, "{} of {} groups", commit_.files.size(), groups_);
  const auto error = finish_pieces(arrays_);
  TESSERA_CHECK(!error, "array `{}`: {}", error->name, error->what);
  write_state_json(state_json);
  if (before_commit) before_commit();
  write_commit();
  files_.sync_directory(temporary_);
  // A directory of this name is a damaged checkpoint, or one of a run that was set back to an earlier step.
  const bool replaces = files_.info(path_).has_value();
  replaces ? files_.exchange(temporary_, path_) : files_.rename(temporary_, path_);
  committed_ = true;
  files_.sync_directory(directory_);
  if (!replaces) return path_;
  try {
    store::remove_tree(files_, temporary_);
  } catch (const Error&) {
    // The old one, removed by the next sweep.
  }
  return path_;
}

void CheckpointWriter::write_state_json(const std::string& state_json) {
  nlohmann::ordered_json json;
  json["format_version"] = commit_.version;
  json["step"] = commit_.step;
  json["state"] = nlohmann::ordered_json::parse(state_json);
  const std::string text = json.dump(2) + "\n";
  const auto file = files_.create(store::join_path(temporary_, kStateJsonFile));
  file->write(store::as_bytes(text));
  file->sync();
  file->close();
  commit_.files.push_back(
      {std::string(kStateJsonFile), static_cast<int64_t>(text.size()), store::crc32c(store::as_bytes(text))});
}

void CheckpointWriter::write_commit() {
  const auto file = files_.create(store::join_path(temporary_, kCommitFile));
  file->write(store::as_bytes(commit_text(commit_)));
  file->sync();
  file->close();
}

}  // namespace tessera::checkpoint
