#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/system/file_calls.h"
#include "base/text/json.h"
#include "checkpoint/commit.h"
#include "store/encoding/crc32c.h"

namespace tessera::checkpoint {
namespace {

// The step of a directory that has its own name; a copy under another name says nothing.
void check_step(const std::string& path, int64_t step) {
  const auto name = parse_directory_name(store::last_part(path));
  if (name && name->step != step) {
    throw data_error(fmt::format("`{}` holds step {}: it was renamed or mixed up", path, step), {}, kDamagedHelp);
  }
}

// Of several processes, which write under the last names, or of a removal.
constexpr const char* kNoCommit = "half-written or half-removed: it has no COMMIT file";

using Fetch = std::function<store::Bytes(const std::string& file)>;
using GroupHeaders = std::map<size_t, SafetensorsFile>;  // by the place in the list

// Of all files of arrays, in the order of their numbers.
struct CheckpointHeader {
  size_t place = 0;  // in the list
  bool needed = false;
  SafetensorsFile file;
};
std::vector<CheckpointHeader> read_headers(store::FileSystem& files, const std::string& path, const Commit& commit,
                                           const NeedsPiece& needs) {
  const bool sliced = commit.version >= kPiecesVersion;
  const std::vector<size_t> in_order = *state_files(commit);
  std::vector<std::string> paths;
  for (const size_t i : in_order) paths.push_back(store::join_path(path, commit.files[i].name));
  std::vector<SafetensorsFile> all = open_headers(paths, files);
  collect_arrays(all, sliced, path);  // so that each place is one in its array
  std::vector<CheckpointHeader> headers;
  for (size_t k = 0; k < all.size(); ++k) {
    const std::vector<NamedPlace> places = places_in(all[k], sliced);
    const auto needed = [&](const NamedPlace& one) { return element_count(one.place.dims) > 0 && needs(one.array, one.place); };
    headers.push_back({in_order[k], std::ranges::any_of(places, needed), std::move(all[k])});
  }
  return headers;
}

// The headers of the files that have no piece which is needed.
GroupHeaders headers_alone(store::FileSystem& files, const std::string& path, const Commit& commit, const NeedsPiece& needs) {
  GroupHeaders alone;
  for (CheckpointHeader& header : read_headers(files, path, commit, needs)) {
    if (!header.needed) alone.emplace(header.place, std::move(header.file));
  }
  return alone;
}

// The contents of all files but those, in the order of the list, once their checksums fit.
std::vector<store::Bytes> map_checked(const std::string& path, const Commit& commit, const GroupHeaders& alone,
                                      const Fetch& fetch) {
  std::vector<store::Bytes> contents(commit.files.size());
  for (size_t i = 0; i < contents.size(); ++i) {
    if (!alone.contains(i)) contents[i] = fetch(store::join_path(path, commit.files[i].name));
  }
  const auto count = static_cast<int64_t>(contents.size());
  parallel_for(count, thread_count(0, count), [&](int64_t i, int) {
    if (alone.contains(static_cast<size_t>(i))) return;
    const CommittedFile& file = commit.files[static_cast<size_t>(i)];
    const store::Bytes& content = contents[static_cast<size_t>(i)];
    const std::string name = store::join_path(path, file.name);
    const FileCall call("reading", name);
    const bool fits = static_cast<int64_t>(content.size()) == file.size && store::crc32c(content.data) == file.crc32c;
    content.check();
    if (fits) return;
    throw damaged_file(store::join_path(path, file.name), "its checksum does not fit");
  });
  return contents;
}

nlohmann::ordered_json parse_state_json(const store::Bytes& bytes, const std::string& path) {
  try {
    return parse_ordered_json(store::as_text(bytes.data), path);
  } catch (const Error& error) {
    throw damaged_file(path, error.message());
  }
}

// From version 3 on it is about names and places in COMMIT: the files may be those of an earlier version.
bool is_version_of(const nlohmann::ordered_json& version, const Commit& commit) {
  if (commit.version < kPrefixVersion) return version == commit.version;
  return version.is_number_integer() && version >= kPlainVersion && version <= commit.version;
}

std::string read_state_json(const store::Bytes& bytes, const std::string& path, const Commit& commit) {
  const nlohmann::ordered_json json = parse_state_json(bytes, path);
  try {
    if (!is_version_of(json.at("format_version"), commit) || json.at("step") != commit.step) {
      throw data_error(fmt::format("`{}` belongs to another checkpoint", path));
    }
    return json.at("state").dump();
  } catch (const nlohmann::json::exception& error) {
    throw damaged_file(path, error.what());
  }
}

}  // namespace

void LoadedCheckpoint::check() const {
  for (const SafetensorsFile& file : files) file.bytes().check();
}

LoadedCheckpoint load(const std::string& path, store::FileSystem& files) {
  return load_part(path, files, nullptr, [&](const std::string& file) { return files.map(file); });
}

LoadedCheckpoint load_part(const std::string& path, store::FileSystem& files, const NeedsPiece& needs, const Fetch& fetch) {
  if (const auto info = files.info(path); !info || !info->directory) {
    throw data_error(fmt::format("there is no checkpoint `{}`", path), {},
                     "name a directory like …/checkpoints/step_000001000");
  }
  const Commit commit = read_commit(files, path);
  check_step(path, commit.step);
  expect_all_here(files, path, commit);
  LoadedCheckpoint loaded;
  loaded.path = path;
  loaded.step = commit.step;
  loaded.run = commit.run;
  GroupHeaders alone = needs ? headers_alone(files, path, commit, needs) : GroupHeaders();
  std::vector<store::Bytes> contents = map_checked(path, commit, alone, fetch);
  const auto file_path = [&](size_t i) { return store::join_path(path, commit.files[i].name); };
  for (size_t i = 0; i < contents.size(); ++i) {
    if (commit.files[i].name == state_json_name(commit)) loaded.state_json = read_state_json(contents[i], file_path(i), commit);
  }
  const auto in_order = state_files(commit);
  for (const size_t i : *in_order) {
    const auto header = alone.find(i);
    loaded.files.push_back(header != alone.end() ? std::move(header->second)
                                                 : SafetensorsFile::parse(std::move(contents[i]), file_path(i)));
  }
  loaded.arrays = collect_arrays(loaded.files, commit.version >= kPiecesVersion, path);
  loaded.check();
  return loaded;
}

std::vector<size_t> needed_files(store::FileSystem& files, const std::string& path, const Commit& commit,
                                 const NeedsPiece& needs) {
  std::vector<size_t> needed;
  for (const CheckpointHeader& header : read_headers(files, path, commit, needs)) {
    if (header.needed) needed.push_back(header.place);
  }
  return needed;
}

namespace {

struct Candidate {
  DirectoryName name;
  std::string path;
  bool operator==(const Candidate& other) const { return path == other.path; }
};

// Newest first.
std::vector<Candidate> list_candidates(const std::string& directory, store::FileSystem& files) {
  std::vector<Candidate> candidates;
  for (const store::FileInfo& entry : files.list(directory)) {
    const auto name = parse_directory_name(entry.name);
    if (name && entry.directory) candidates.push_back({*name, store::join_path(directory, entry.name)});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.name.step > b.name.step; });
  return candidates;
}

// The first that is whole, and what is wrong with those before it.
LatestCheckpoint take_first_whole(const std::vector<Candidate>& candidates, store::FileSystem& files) {
  LatestCheckpoint latest;
  for (const Candidate& candidate : candidates) {
    if (candidate.name.writer || !files.info(store::join_path(candidate.path, kCommitFile))) {
      const std::string why = candidate.name.writer ? "half-written: the save did not end" : kNoCommit;
      latest.rejected.push_back({candidate.path, why, /*unfinished=*/true});
      continue;
    }
    try {
      latest.checkpoint = load(candidate.path, files);
      break;
    } catch (const Error& error) {
      if (is_elsewhere(error)) throw;  // nothing is damaged
      latest.rejected.push_back({candidate.path, error.message()});
    }
  }
  return latest;
}

}  // namespace

LatestCheckpoint find_latest(const std::string& directory, store::FileSystem& files) {
  constexpr int kLooks = 10;
  if (!files.info(directory)) return {};
  LatestCheckpoint latest;
  std::vector<Candidate> candidates = list_candidates(directory, files);
  // A run that trains may have replaced all that was listed before it was read.
  for (int look = 0; look < kLooks; ++look) {
    latest = take_first_whole(candidates, files);
    if (latest.checkpoint) return latest;
    std::vector<Candidate> now = list_candidates(directory, files);
    if (now == candidates) break;
    candidates = std::move(now);
  }
  if (std::ranges::all_of(latest.rejected, &RejectedCheckpoint::unfinished)) return latest;
  std::string reasons;
  for (const RejectedCheckpoint& rejected : latest.rejected) reasons += "\n  " + rejected.path + ": " + rejected.reason;
  throw data_error(fmt::format("no checkpoint in `{}` can be read:{}", directory, reasons), {},
                   "restore one from a copy, or move the directory away to start from the beginning");
}

}  // namespace tessera::checkpoint
