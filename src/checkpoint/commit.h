#pragma once
// Names of checkpoint directories and the COMMIT file: the list of files that makes a directory a checkpoint.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/file.h"

namespace tessera::checkpoint {

// "step_000001000": at least nine digits, so that names sort as steps do up to a thousand million.
std::string step_directory(int64_t step);

// What a damaged checkpoint's name gets at its end: "step_000001000.damaged". Such names are not ours any more.
inline constexpr std::string_view kDamagedSuffix = "damaged";

// What to do where a checkpoint that the user named can't be read.
inline constexpr const char* kDamagedHelp = "copy it again, or name another of the run's checkpoints, as RUN@STEP";

// A data error: a file of a checkpoint, or the directory, is damaged.
Error damaged_file(const std::string& path, std::string_view why);
// Whether this is what an Error says, and not that a file could not be read just now or is of a newer version.
bool is_damage(const Error& error);
// Whether an Error says that some files are on the disks of other hosts (expect_all_here()).
bool is_elsewhere(const Error& error);

struct DirectoryName {
  int64_t step = 0;
  std::optional<int64_t> writer;  // process id of a save that has not ended: "step_000001000.tmp-4711"
};
// Nothing for names that are not ours.
std::optional<DirectoryName> parse_directory_name(std::string_view name);

// A run and one of its steps, as users name them: "runs/digits@1000".
struct RunAtStep {
  std::string run;
  int64_t step = 0;
};
// Nothing where the text does not end in @ and a number.
std::optional<RunAtStep> parse_run_at_step(const std::string& text);
// The usage Error for a run without a checkpoint of the step; `steps`: those that it has, rising.
Error no_such_step(const RunAtStep& wanted, const std::vector<int64_t>& steps, const std::string& where = {});

struct CommittedFile {
  std::string name;  // within the directory; plain letters, digits, '.', '_', '-'
  int64_t size = 0;
  uint32_t crc32c = 0;
  bool operator==(const CommittedFile&) const = default;
};

// Version 1: one file of whole arrays. Version 2, written only where it is needed: several files, or slices of arrays.
// Version 3: as 2, and all names have a prefix, since the checkpoint was written beside another one of its step.
// Version 4: as 2 or 3, and the files lie in directories on several hosts: each has some of them, state.json and COMMIT.
inline constexpr int64_t kPlainVersion = 1, kPiecesVersion = 2, kPrefixVersion = 3, kHostsVersion = 4;

struct Commit {
  int64_t step = 0;
  std::vector<CommittedFile> files;
  int64_t version = kPlainVersion;
  std::string run = {};  // whose it is, as the writer names runs: plain letters as a file's name; empty: it didn't say
};

// "state.safetensors" for one file, "state-00001-of-00005.safetensors" for the first of five.
std::string state_file_name(size_t index, size_t count);
// "state.json", with the prefix of the checkpoint's files.
std::string state_json_name(const Commit& commit);
// What a file's name begins with where it was written beside another one of its step: "r2-" of "r2-state.json". Else empty.
std::string_view name_prefix(std::string_view name);
// Whether both have the same contents of the same step, whatever the prefixes of their files.
bool same_content(const Commit& a, const Commit& b);
// A prefix that the files of `there` don't have: those of another checkpoint of the step may be written beside them, and
// COMMIT then lists the ones or the others.
std::string other_prefix(const Commit& there);
// The same files under names that begin so.
Commit with_prefix(Commit commit, std::string_view prefix);
// The indices in `commit.files` of the files of arrays, in the order of their numbers. Nothing when they are not all there,
// each once.
std::optional<std::vector<size_t>> state_files(const Commit& commit);

// JSON whose last field is a checksum of everything before it.
std::string commit_text(const Commit& commit);
// Throws a data error that names `path`.
Commit parse_file_list(std::string_view text, const std::string& path);
// The same of a list that is to be a whole checkpoint's: `state.json` once, and every file of arrays.
Commit parse_commit(std::string_view text, const std::string& path);

// Reads COMMIT and compares sizes, not contents. Throws a data error when the directory is half-written or damaged. In version 4
// files may be missing.
Commit read_commit(store::FileSystem& files, const std::string& directory);
// Throws a data Error where `directory` lacks files of its `commit`, which was read there: they are on other hosts.
void expect_all_here(store::FileSystem& files, const std::string& directory, const Commit& commit);

}  // namespace tessera::checkpoint
