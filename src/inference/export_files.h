#pragma once
// What is written for others: there whole or not at all, with checksums, and never in the place of something else unless that
// is asked for.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/formats/safetensors.h"
#include "store/file.h"

namespace tessera::inference {

// What to do where something is at the place already: a usage Error, or put the new in its place.
enum class Existing { kRefuse, kReplace };

// A usage Error where write_export_directory() or write_export_file() would refuse.
void check_export_directory(store::FileSystem& files, const std::string& directory, Existing existing);
void check_export_file(store::FileSystem& files, const std::string& path, Existing existing);

// Calls `write` with a directory that it fills with the files `names`, the most important last, and syncs; adds SHA256SUMS. The
// result takes the name `directory` in one step, so that a reader, and whoever comes after a power cut, sees the old files or
// the new ones. (An empty directory that can't be replaced, as a mount point, is filled in that order.) A directory that holds
// anything but an earlier export is never replaced.
void write_export_directory(store::FileSystem& files, const std::string& directory, Existing existing,
                            const std::vector<std::string>& names, const std::function<void(const std::string&)>& write);

// An export of model.safetensors and texts that describe it, by their names; the last one is the most important.
void write_safetensors_directory(const std::string& directory, Existing existing,
                                 const std::vector<checkpoint::TensorView>& tensors,
                                 const std::vector<std::pair<std::string, std::string>>& descriptions);

// The same for one file, which `write` makes at the path it is given: <path>.sha256 comes beside it. Directories above it are
// made.
void write_export_file(store::FileSystem& files, const std::string& path, Existing existing,
                       const std::function<void(const std::string&)>& write);

}  // namespace tessera::inference
