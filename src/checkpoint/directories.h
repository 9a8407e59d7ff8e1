#pragma once
// Removing directories in `…/checkpoints` and setting them aside. Only files that this program writes are removed, and symbolic
// links are not followed.

#include <string>
#include <string_view>

#include "checkpoint/commit.h"
#include "store/file.h"

namespace tessera::checkpoint {

// True for the names of files that this program writes into a checkpoint's directory, at its end or on the way there.
bool is_own_file(std::string_view name);

enum class Condition {
  kWhole,        // as far as COMMIT and the sizes tell
  kHalfRemoved,  // no COMMIT
  kDamaged,
  kOtherRun,  // as kWhole, and says that it is of another run
};
// `run`: whose it should be; empty takes any.
Condition condition_of(store::FileSystem& files, const std::string& path, const std::string& run = {});

// Removes `name` in `directory`: a checkpoint, or what a save left. COMMIT goes first and durably, so that no power cut leaves
// a directory that looks whole. Files and directories that this program doesn't write stay, with the directory that holds them,
// and a warning names them. Of a symbolic link only the link goes. Nothing there: does nothing. In a bucket all objects below
// that name go, COMMIT first.
void remove_checkpoint(store::FileSystem& files, const std::string& directory, const std::string& name);

// Removes the files of ours in the checkpoint `path` that its COMMIT, `commit`, does not list: those of the one that it
// replaced.
void remove_unlisted(store::FileSystem& files, const std::string& path, const Commit& commit);

// Renames `name` in `directory` to `<name>.<why>`, with a number where that exists ("step_000000040.damaged.2"): no reader
// looks there, and nothing removes it. Durable. Gives the new path.
std::string put_aside(store::FileSystem& files, const std::string& directory, const std::string& name, std::string_view why);

}  // namespace tessera::checkpoint
