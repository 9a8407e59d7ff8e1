#pragma once
// Reading checkpoints: `checkpoints/step_000001000/` with `state.safetensors` (or several numbered files), `state.json` and
// `COMMIT`. The format, the order of writes and what a reader must check are in docs/formats/checkpoint.md. Writing is in
// checkpoint/manager.h.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/box.h"
#include "checkpoint/commit.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/stored_array.h"
#include "store/file.h"

namespace tessera::checkpoint {

inline constexpr std::string_view kStateFile = "state.safetensors";
inline constexpr std::string_view kStateJsonFile = "state.json";
inline constexpr std::string_view kCommitFile = "COMMIT";

// A checkpoint whose sizes and checksums all fit and whose arrays are whole. They are a read-only view of the files, valid as
// long as this or a copy of it lives, even when the directory is removed meanwhile.
struct LoadedCheckpoint {
  std::string path;
  int64_t step = 0;
  std::string run;         // whose it is (Snapshot::run); empty where it doesn't say
  std::string state_json;  // the writer's own JSON: same values and order of keys, spacing may differ
  std::vector<SafetensorsFile> files;
  StoredArrays arrays;  // by name; views of `files`

  // To be asked after arrays were read: throws store::IoError where a part of the files could no longer be read, so that zeros
  // were seen in its place. load() has read every byte, but what does not stay in memory is fetched again.
  void check() const;
};

// Loads one checkpoint directory. Reads every byte once, several files on several threads. Throws a data error when it is
// half-written or damaged in any byte: of several damaged files it names the first in the order of COMMIT.
LoadedCheckpoint load(const std::string& path, store::FileSystem& files = store::local_files());

// Whether a program needs a piece of an array.
using NeedsPiece = std::function<bool(const std::string& array, const Placed& place)>;
// The same of those files alone that have a piece which is needed; of the others only the headers are read, and their pieces have
// no data. `fetch` gives the contents of a file.
LoadedCheckpoint load_part(const std::string& path, store::FileSystem& files, const NeedsPiece& needs,
                           const std::function<store::Bytes(const std::string& file)>& fetch);

// Which files of a checkpoint, by their place in its list, have a piece that is needed: of files of arrays only the headers are
// read. Throws a data Error where the arrays are not whole.
std::vector<size_t> needed_files(store::FileSystem& files, const std::string& path, const Commit& commit,
                                 const NeedsPiece& needs);

struct RejectedCheckpoint {
  std::string path;
  std::string reason;
  bool unfinished = false;  // a save or a removal that did not end; else a checkpoint that is damaged
};

struct LatestCheckpoint {
  std::optional<LoadedCheckpoint> checkpoint;  // nothing: there is none yet
  std::vector<RejectedCheckpoint> rejected;    // newer ones that are half-written or damaged, newest first
};

// The newest checkpoint in `directory` that is whole, also while a run saves there and removes older ones. No directory means
// none. When there are committed ones but all are damaged, throws a data error that lists each with its reason: starting from
// scratch over lost work must be somebody's decision. Throws expect_all_here()'s where files of the newest are on other hosts.
LatestCheckpoint find_latest(const std::string& directory, store::FileSystem& files = store::local_files());

}  // namespace tessera::checkpoint
