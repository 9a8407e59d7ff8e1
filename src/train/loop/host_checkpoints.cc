#include "train/loop/host_checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "checkpoint/directories.h"
#include "checkpoint/stored_array.h"
#include "state/run_steps.h"
#include "state/saved_parts.h"
#include "store/encoding/crc32c.h"

namespace tessera::train {
namespace {

using checkpoint::Commit;
using checkpoint::CommittedFile;
using nlohmann::json;

constexpr int64_t kPieceBytes = int64_t{16} << 20;  // of a file on its way
constexpr int64_t kBytesToTellOf = int64_t{256} << 20;

// What each process says, in their order.
std::vector<json> all_say(Processes& processes, const json& own) {
  std::vector<json> all;
  for (const std::string& text : processes.gather(own.dump())) all.push_back(parse_json(text, "another process's checkpoint"));
  return all;
}

enum class Found { kNothing, kDamaged, kGood };

// Whether the file is there, with the bytes that were written.
Found look_for(const std::string& path, const CommittedFile& file) {
  store::FileSystem& files = store::local_files();
  try {
    const auto info = files.info(path);
    if (!info) return Found::kNothing;
    if (info->size != file.size) return Found::kDamaged;
    const store::Bytes bytes = files.map(path);
    const bool fits = store::crc32c(bytes.data) == file.crc32c;
    bytes.check();
    return fits ? Found::kGood : Found::kDamaged;
  } catch (const Error&) {
    return Found::kDamaged;  // one that can't be read
  }
}

// The first bytes of a safetensors file, to its arrays.
std::string header_of(const std::string& path) {
  store::FileSystem& files = store::local_files();
  std::vector<std::byte> length = store::read_range(files, path, 0, 8);
  uint64_t bytes = 0;
  for (size_t i = length.size(); i-- > 0;) bytes = bytes << 8 | static_cast<uint64_t>(length[i]);
  const std::vector<std::byte> whole = store::read_range(files, path, 0, static_cast<int64_t>(8 + bytes));
  return std::string(store::as_text(whole));
}

// Where the files of a checkpoint are, by their place in its list.
struct Places {
  std::vector<int64_t> owner;  // the process that gives it to others
  std::vector<bool> here;      // in this process's directory
};

// The Error of a file that no host has as it was written. One that is nowhere may be on a host that does not take part.
Error no_host_has(const std::string& file, bool damaged, int64_t processes) {
  if (damaged) return checkpoint::damaged_file(file, "no host has it as it was written");
  return data_error(fmt::format("`{}` is on no host of the {} processes", file, processes), {},
                    "start on all hosts that wrote the checkpoint, or go back to an earlier one with --from-step");
}

// Of the checkpoint `path`. Who leads a directory looks for all that have it. Throws a data Error where a file is nowhere.
Places find_files(Run& run, const std::string& path, const Commit& commit) {
  const auto count = static_cast<int64_t>(commit.files.size());
  std::vector<Found> found(commit.files.size());
  if (run.leads_directory()) {
    parallel_for(count, thread_count(0, count), [&](int64_t i, int) {
      const CommittedFile& file = commit.files[static_cast<size_t>(i)];
      found[static_cast<size_t>(i)] = look_for(store::join_path(path, file.name), file);
    });
  }
  // That all have read theirs.
  run.processes.members()->barrier(fmt::format("files of step {}", commit.step), kFetchPatience);
  const std::vector<json> all = all_say(run.processes, found);
  const auto says = [](Found what, size_t i) { return [what, i](const json& its) { return its.at(i).get<Found>() == what; }; };
  Places places;
  for (size_t i = 0; i < commit.files.size(); ++i) {
    const auto owner = std::ranges::find_if(all, says(Found::kGood, i));
    if (owner == all.end()) {
      throw no_host_has(store::join_path(path, commit.files[i].name), std::ranges::any_of(all, says(Found::kDamaged, i)),
                        run.processes.count());
    }
    places.owner.push_back(owner - all.begin());
    places.here.push_back(says(Found::kGood, i)(all[static_cast<size_t>(run.directory())]));
  }
  return places;
}

// The files of one checkpoint of all hosts, as a directory beside it: a link to each file that is on this host, and what comes from
// others. Gone with this object.
class Assembly {
 public:
  Assembly(std::string directory, int64_t step, int64_t process)
      : directory_(std::move(directory)),
        name_(fmt::format("{}.tmp-{}.{}", checkpoint::step_directory(step), ::getpid(), process)) {
    remove();
    store::local_files().make_directories(path());
  }
  ~Assembly() { remove(); }
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  std::string path() const { return store::join_path(directory_, name_); }
  std::string path_of(const std::string& file) const { return store::join_path(path(), file); }
  void link(const std::string& own, const std::string& name) {
    std::error_code failed;
    std::filesystem::create_symlink(std::filesystem::absolute(own), path_of(name), failed);
    if (failed) throw store::IoError(failed.value(), "write", path_of(name));
  }
  // A file of that size whose first bytes are these.
  void begin_file(const CommittedFile& file, const std::string& begin) {
    const auto out = store::local_files().create(path_of(file.name));
    out->write(store::as_bytes(begin));
    out->close();
    store::local_files().truncate(path_of(file.name), file.size);
  }

 private:
  void remove() noexcept {
    try {
      checkpoint::remove_checkpoint(store::local_files(), directory_, name_);
    } catch (const InternalError&) {
      std::terminate();
    } catch (...) {
      // The next start of the run sweeps.
    }
  }

  const std::string directory_, name_;
};

// What this host has, and of the other files of arrays the headers.
void begin_files(Run& run, const std::string& path, const Commit& commit, const Places& places, Assembly& assembly) {
  const std::vector<size_t> arrays = *checkpoint::state_files(commit);
  json sizes = json::array();
  std::string headers;
  for (const size_t i : arrays) {
    const bool tells = places.owner[i] == run.processes.index();
    const std::string header = tells ? header_of(store::join_path(path, commit.files[i].name)) : "";
    sizes.push_back(header.size());
    headers += header;
  }
  const std::vector<json> all_sizes = all_say(run.processes, sizes);
  const std::vector<std::string> all_headers = run.processes.gather(std::move(headers));
  std::vector<size_t> read(all_headers.size());
  for (size_t k = 0; k < arrays.size(); ++k) {
    const auto owner = static_cast<size_t>(places.owner[arrays[k]]);
    const auto bytes = all_sizes[owner].at(k).get<size_t>();
    const std::string header = all_headers[owner].substr(read[owner], bytes);
    read[owner] += bytes;
    if (!places.here[arrays[k]]) assembly.begin_file(commit.files[arrays[k]], header);
  }
  for (size_t i = 0; i < commit.files.size(); ++i) {
    if (places.here[i]) assembly.link(store::join_path(path, commit.files[i].name), commit.files[i].name);
  }
  store::write_atomic(store::local_files(), assembly.path_of(std::string(checkpoint::kCommitFile)),
                      std::string_view(checkpoint::commit_text(commit)));
}

// A file of `owner`, which has it at `own`, to those who have a place for it.
void send_file(Processes& processes, int64_t owner, const std::string& own, int64_t size, const std::string* place) {
  const auto from = processes.index() == owner ? store::local_files().open(own) : nullptr;
  const auto to = place ? store::local_files().create(*place) : nullptr;
  std::vector<std::byte> piece;
  for (int64_t offset = 0; offset < size; offset += kPieceBytes) {
    piece.resize(static_cast<size_t>(std::min(kPieceBytes, size - offset)));
    if (from) from->read(offset, piece);
    processes.copy_from(owner, piece);
    if (to) to->write(piece);
  }
  if (to) to->close();
}

// What each process needs and has not. Throws a data Error in all of them where one can't read the headers.
std::vector<std::set<size_t>> lacking_files(Run& run, const Commit& commit, const Places& places,
                                            const checkpoint::NeedsPiece& needs, const Assembly& assembly) {
  json own = {{"files", json::array()}, {"problem", ""}};
  try {
    std::vector<size_t> needed = checkpoint::needed_files(store::local_files(), assembly.path(), commit, needs);
    for (size_t i = 0; i < commit.files.size(); ++i) {
      if (commit.files[i].name == checkpoint::state_json_name(commit)) needed.push_back(i);
    }
    std::erase_if(needed, [&](size_t i) { return places.here[i]; });
    own["files"] = needed;
  } catch (const Error& error) {
    own["problem"] = one_line(error.message());
  }
  std::vector<std::set<size_t>> lacking;
  for (const json& its : all_say(run.processes, own)) {
    if (!its.at("problem").get<std::string>().empty()) throw data_error(its.at("problem"), {}, checkpoint::kDamagedHelp);
    lacking.push_back(its.at("files").get<std::set<size_t>>());
  }
  return lacking;
}

// Files that this process needs and lacks, and what the others need, go from host to host.
void bring_files(Run& run, const std::string& path, const Commit& commit, const Places& places,
                 const checkpoint::NeedsPiece& needs, Assembly& assembly) {
  const std::vector<std::set<size_t>> lacking = lacking_files(run, commit, places, needs, assembly);
  std::set<size_t> travelling;  // in the same order for all
  for (const std::set<size_t>& its : lacking) travelling.insert(its.begin(), its.end());
  int64_t bytes = 0;
  for (const size_t i : travelling) bytes += commit.files.at(i).size;
  if (run.processes.leads() && bytes >= kBytesToTellOf)
    log_note(fmt::format("{} of step {} go from host to host", human_bytes(static_cast<double>(bytes)), commit.step));
  for (const size_t i : travelling) {
    const CommittedFile& file = commit.files[i];
    const std::string place = assembly.path_of(file.name);
    const bool lacks = lacking[static_cast<size_t>(run.processes.index())].contains(i);
    send_file(run.processes, places.owner[i], store::join_path(path, file.name), file.size, lacks ? &place : nullptr);
  }
}

}  // namespace

HostCheckpoints::HostCheckpoints(Run& run) : run_(run), directory_(store::join_path(run.home, "checkpoints")) {
  Processes& processes = run_.processes;
  processes.connect();
  store::FileSystem& files = store::local_files();
  json steps = json::array();
  for (const int64_t step : state::saved_steps(run_.home).value_or(std::vector<int64_t>{})) {
    steps.push_back(step);
    if (!processes.leads()) continue;
    commits_[step] = store::read_text(files, store::join_path(run_.checkpoint_path(step), checkpoint::kCommitFile));
  }
  const std::vector<json> all = all_say(processes, steps);
  if (!all[0].empty()) return;
  for (size_t process = 1; process < all.size(); ++process) {
    if (all[process].empty()) continue;
    throw data_error(fmt::format("process 0 has no checkpoint of the run, and process {} has those of steps {}", process,
                                 fmt::join(all[process].get<std::vector<int64_t>>(), ", ")),
                     run_.home, "make the host process 0 that was it before; to start afresh, name another --workdir");
  }
}

std::optional<int64_t> HostCheckpoints::newest(int64_t before) const {
  const auto next = commits_.lower_bound(before);
  return next == commits_.begin() ? std::nullopt : std::optional(std::prev(next)->first);
}

checkpoint::LoadedCheckpoint HostCheckpoints::load(int64_t step) {
  const auto found = commits_.find(step);
  const std::string text =
      run_.processes.from_leader(fmt::format("COMMIT {}", loads_++), found == commits_.end() ? "" : found->second);
  const std::string path = run_.checkpoint_path(step);
  const Commit commit = checkpoint::parse_commit(text, store::join_path(path, checkpoint::kCommitFile));
  const Places places = find_files(run_, path, commit);
  Assembly assembly(directory_, step, run_.processes.index());
  begin_files(run_, path, commit, places, assembly);
  const state::HeldParts held(run_.layout, run_.processes.index(), run_.processes.count());
  const auto needs = [&](const std::string& array, const Placed& box) { return held.has(array, box); };
  bring_files(run_, path, commit, places, needs, assembly);
  checkpoint::LoadedCheckpoint loaded = checkpoint::load_part(
      assembly.path(), store::local_files(), needs, [](const std::string& file) { return store::local_files().map(file); });
  loaded.path = path;
  return loaded;
}

void HostCheckpoints::put_aside(int64_t step) {
  if (!run_.leads_directory() || !store::local_files().info(run_.checkpoint_path(step))) return;
  checkpoint::put_aside(store::local_files(), directory_, checkpoint::step_directory(step), checkpoint::kDamagedSuffix);
}

}  // namespace tessera::train
