#pragma once
// Writes exports. An export is there whole or not at all, has checksums, and replaces something else only where that is asked
// for.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/formats/safetensors.h"
#include "state/model_source.h"
#include "store/file.h"

namespace tessera::inference {

// What to do where something is there already: refuse with a usage Error, or replace it.
enum class Existing { kRefuse, kReplace };

// Describes an export as JSON: the run (checkpoint::LoadedCheckpoint::run), the format, which weights, and the step. It is in
// `export.json` of a directory, and in <path>.export.json beside a file. An export of the same run, format and weights, and of
// the same step or an earlier one, is replaced without being asked for, where its checksums hold. Empty where `run` is empty:
// the weights come from no run, and no record is written.
std::string export_record(const std::string& run, std::string_view format, state::Weights weights, int64_t step);
std::string export_record(const state::LoadedModel& model, std::string_view format);
// The record of the directory or file at `path`; empty where there is none.
std::string export_record_at(store::FileSystem& files, const std::string& path);

// Removes the record at `path` where it is another one than `record`: before files are put there one after another.
void remove_other_record(store::FileSystem& files, const std::string& path, const std::string& record);

// A usage Error where write_export_directory() or write_export_file() would refuse. Reads what would be replaced unasked.
void check_export_directory(store::FileSystem& files, const std::string& directory, Existing existing,
                            const std::string& record = {});
void check_export_file(store::FileSystem& files, const std::string& path, Existing existing, const std::string& record = {});

// Calls `write` with a directory that it fills with the files `names`, the most important last, and syncs; adds its record and
// SHA256SUMS. The result takes the name `directory` in one step, so that a reader, and whoever comes after a power cut, sees
// the old files or the new ones. (An empty directory that can't be replaced, as a mount point, is filled in that order.) A
// directory that holds anything but an earlier export is never replaced.
void write_export_directory(store::FileSystem& files, const std::string& directory, Existing existing,
                            const std::vector<std::string>& names, const std::function<void(const std::string&)>& write,
                            const std::string& record = {});

// An export of model.safetensors and texts that describe it, by their names; the last one is the most important.
void write_safetensors_directory(const std::string& directory, Existing existing,
                                 const std::vector<checkpoint::TensorView>& tensors,
                                 const std::vector<std::pair<std::string, std::string>>& descriptions,
                                 const std::string& record = {});

// The same for one file, which `write` makes at the path it is given: <path>.sha256 comes beside it, and its record. A file in
// the record's place that is none is never replaced. Directories above it are made.
void write_export_file(store::FileSystem& files, const std::string& path, Existing existing,
                       const std::function<void(const std::string&)>& write, const std::string& record = {});

}  // namespace tessera::inference
