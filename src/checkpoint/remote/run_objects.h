#pragma once
// What a run's directory in a bucket holds. Its objects have the names that a run's files have (docs/formats/checkpoint.md), so
// that any tool may copy it and have a run.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tessera::remote {

inline constexpr const char* kClaimObject = "CLAIM";  // checkpoint/remote/claim.h
inline constexpr const char* kRecipeObject = "recipe.toml";

// Names are relative to the run's address. Those that could lead out of a local directory (a part that is "." or ".."), the
// claim, and what is in the folder of another run below this one are left out.
struct RunObjects {
  std::map<int64_t, std::vector<std::string>> checkpoints;  // by step: objects in checkpoints/step_…/
  std::vector<std::string> others;                          // outside checkpoints/

  // The newest step before `before` whose COMMIT is there.
  std::optional<int64_t> newest(int64_t before) const;
  bool committed(int64_t step) const;
};

RunObjects sorted_objects(const std::vector<std::string>& names);

// Asks the server; an address below which is nothing gives nothing. `url` has no "/" at its end.
RunObjects list_run(const std::string& url);

// "checkpoints/step_000001000"
std::string checkpoint_name(int64_t step);

// Brings a checkpoint to `checkpoints`, a local directory …/checkpoints: whole and with the checksums of its COMMIT, or not at
// all. Nothing where the same checkpoint is there. One that is saved again meanwhile comes as it is then. Throws a data Error,
// which is_damage() where it is damaged.
void fetch_checkpoint(const std::string& url, int64_t step, const std::string& checkpoints);

// What is needed of a checkpoint of the bucket (checkpoint::load_part), as store::map_copy() has it. Throws a data Error where it
// is damaged.
checkpoint::LoadedCheckpoint load_checkpoint(const std::string& url, int64_t step, const checkpoint::NeedsPiece& needs);

// An object as a file of a local directory, replacing what is there; it is there whole or as it was.
void fetch_file(const std::string& url, const std::string& name, const std::string& directory);

// Removes a checkpoint's objects from the bucket, COMMIT first.
void remove_checkpoint_objects(const std::string& url, int64_t step);

}  // namespace tessera::remote
