#include "inference/export_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/system/process.h"
#include "base/text/digits.h"
#include "base/text/json.h"
#include "store/checksums.h"
#include "store/small_file.h"

namespace tessera::inference {
namespace {

constexpr std::string_view kTemporary = ".tmp-", kRecord = "export.json", kRecordEnding = ".export.json";
constexpr int64_t kMaxRecordBytes = 4096;

// What exports write, whatever their format.
bool is_exported(const std::string& name) {
  return name == "model.safetensors" || name == "config.json" || name == "preprocessor_config.json" ||
         name.ends_with(".mlir") || name == "signature.json" || name == kRecord || name == store::kChecksumList;
}

// The directory itself where `path` is a link to one: its place is taken, not the link's.
std::string real_directory(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::error_code none;
  const auto real = std::filesystem::canonical(path, none);
  return none ? path : real.string();
}

// An empty directory gives way to a new one, but for a mount point, the directory that the program was started in, which would be
// left without a name, and one whose parent this user may not change.
bool can_be_replaced(store::FileSystem& files, const std::string& directory) {
  const std::string parent = store::parent_path(directory);
  const auto there = files.info(directory), above = files.info(parent), here = files.info(".");
  return there && above && there->id.device == above->id.device && !(here && here->id == there->id) &&
         ::access(parent.c_str(), W_OK | X_OK) == 0;
}

bool is_empty(store::FileSystem& files, const std::string& directory) { return files.list(directory).empty(); }

void remove_quietly(store::FileSystem& files, const std::string& directory) {
  try {
    if (files.info(directory)) store::remove_tree(files, directory);
  } catch (const Error&) {
    // It was on the way out; the failure before is the one to tell.
  }
}

// The process whose temporary directory this is; nothing for names of another form, which may be somebody's.
std::optional<int64_t> writer_of(std::string_view name, std::string_view begin) {
  if (!name.starts_with(begin)) return std::nullopt;
  name.remove_prefix(begin.size());
  const auto pid = parse_digits(name);
  return pid && *pid > 0 ? pid : std::nullopt;
}

// What killed exports to this place left half written.
void sweep(store::FileSystem& files, const std::string& directory) {
  const std::string parent = store::parent_path(directory);
  const std::string begin = directory.substr(directory.rfind('/') + 1) + std::string(kTemporary);
  for (const store::FileInfo& entry : files.list(parent)) {
    const std::optional<int64_t> writer = writer_of(entry.name, begin);
    if (!entry.directory || entry.symlink || !writer || !process_is_dead(*writer)) continue;
    const std::string left = store::join_path(parent, entry.name);
    const auto inside = files.list(left);
    const bool ours = std::ranges::all_of(inside, [](const store::FileInfo& file) {
      return !file.directory && is_exported(file.name.substr(0, file.name.find(kTemporary)));
    });
    if (ours) remove_quietly(files, left);
  }
}

void fill(store::FileSystem& files, const std::string& directory, const std::vector<std::string>& names,
          const std::function<void(const std::string&)>& write, const std::string& record) {
  write(directory);
  std::vector<std::string> all = names;
  if (!record.empty()) {
    all.emplace_back(kRecord);
    store::write_atomic(files, store::join_path(directory, kRecord), record);
  }
  store::write_atomic(files, store::join_path(directory, store::kChecksumList), store::checksum_lines(files, directory, all));
}

// Of the export at `path`; empty where there is nothing.
std::string record_path(store::FileSystem& files, const std::string& path) {
  const auto there = files.info(path);
  if (!there) return "";
  return there->directory ? store::join_path(path, kRecord) : path + std::string(kRecordEnding);
}

// Empty where there is none, or something that is too large to be one.
std::string read_record(store::FileSystem& files, const std::string& record) {
  const auto info = files.info(record);
  return info && !info->directory && info->size <= kMaxRecordBytes ? store::read_text(files, record) : "";
}

struct Record {
  std::string run, format, weights;
  int64_t step = 0;
};

// Nothing for a text that no export wrote.
std::optional<Record> parse_record(const std::string& text) {
  const nlohmann::json json = read_json(text).value;
  const auto has = [&](const char* key) { return json.is_object() && json.contains(key) && json[key].is_string(); };
  if (!has("run") || !has("format") || !has("weights") || !json.contains("step")) return std::nullopt;
  if (!json["step"].is_number_integer()) return std::nullopt;
  return Record{json["run"], json["format"], json["weights"], json["step"]};
}

// Whether what is at `path` may give way to an export of this record.
bool gives_way(store::FileSystem& files, const std::string& path, Existing existing, const std::string& record) {
  if (existing == Existing::kReplace) return true;
  const auto there = parse_record(export_record_at(files, path)), ours = parse_record(record);
  return there && ours && there->run == ours->run && there->format == ours->format && there->weights == ours->weights &&
         there->step <= ours->step;
}

// Why the export at `path` is not replaced, for the end of a message.
std::string_view whose(store::FileSystem& files, const std::string& path) {
  return export_record_at(files, path).empty()
             ? ""
             : ": the export of another run, of other weights or a later step of this one, or in another format";
}

// A usage Error where the files `names` below `directory` are not those that the list of checksums names.
void expect_as_written(store::FileSystem& files, const std::string& path, const std::string& directory,
                       const std::vector<std::string>& names, const std::string& list) {
  const bool listed = files.info(list).has_value();
  const auto sums =
      listed ? store::parse_checksums(store::read_small_file(files, list), list) : std::map<std::string, std::string>();
  const bool as_written =
      sums.size() == names.size() && std::ranges::all_of(names, [&](const std::string& name) {
        const auto sum = sums.find(name);
        return sum != sums.end() && store::to_hex(store::sha256_of(files, store::join_path(directory, name))) == sum->second;
      });
  if (as_written) return;
  throw usage_error(fmt::format("`{}` was changed since its export: {}", path,
                                listed ? fmt::format("it does not fit `{}`", list) : fmt::format("`{}` is gone", list)),
                    "--to", "name another place, or give --overwrite");
}

}  // namespace

std::string export_record(const std::string& run, std::string_view format, state::Weights weights, int64_t step) {
  if (run.empty()) return "";
  const char* which = weights == state::Weights::kAverage ? "average" : "raw";
  return nlohmann::ordered_json{{"run", run}, {"format", format}, {"weights", which}, {"step", step}}.dump(1) + "\n";
}

std::string export_record(const state::LoadedModel& model, std::string_view format) {
  return export_record(model.run, format, model.weights, model.step);
}

std::string export_record_at(store::FileSystem& files, const std::string& path) {
  const std::string record = record_path(files, path);
  return record.empty() ? "" : read_record(files, record);
}

void remove_other_record(store::FileSystem& files, const std::string& path, const std::string& record) {
  const std::string there = export_record_at(files, path);
  if (!there.empty() && there != record) files.remove_file(record_path(files, path));
}

void check_export_directory(store::FileSystem& files, const std::string& path, Existing existing, const std::string& record) {
  const std::string directory = real_directory(path);
  const auto info = files.info(directory);
  if (!info || (info->directory && is_empty(files, directory))) return;
  if (!info->directory) throw usage_error(fmt::format("`{}` is a file", path), "--to", "name a directory");
  if (!gives_way(files, directory, existing, record)) {
    throw usage_error(fmt::format("`{}` is there already and is not empty{}", path, whose(files, directory)), "--to",
                      "name a new directory, or give --overwrite");
  }
  std::vector<std::string> names;
  for (const store::FileInfo& entry : files.list(directory)) {
    if (entry.name != store::kChecksumList) names.push_back(entry.name);
    if (is_exported(entry.name)) continue;
    throw usage_error(fmt::format("`{}` holds more than an export: `{}`", path, entry.name), "--to",
                      "name a new directory; --overwrite replaces what an export wrote, nothing else");
  }
  if (existing == Existing::kReplace) return;
  expect_as_written(files, path, directory, names, store::join_path(directory, store::kChecksumList));
}

void check_export_file(store::FileSystem& files, const std::string& path, Existing existing, const std::string& record) {
  const auto info = files.info(path);
  if (info && info->directory) throw usage_error(fmt::format("`{}` is a directory", path), "--to", "name a file");
  if (info && !gives_way(files, path, existing, record)) {
    throw usage_error(fmt::format("`{}` is there already{}", path, whose(files, path)), "--to",
                      "name a new file, or give --overwrite");
  }
  const std::string beside = path + std::string(kRecordEnding);
  if (files.info(beside) && !parse_record(read_record(files, beside))) {
    throw usage_error(fmt::format("`{}`, where an export says whose it is, is another file", beside), "--to",
                      "name another file, or move that one away");
  }
  if (!info || existing == Existing::kReplace) return;
  expect_as_written(files, path, store::parent_path(path), {std::string(store::last_part(path))},
                    path + std::string(store::kChecksumEnding));
}

void write_export_directory(store::FileSystem& files, const std::string& path, Existing existing,
                            const std::vector<std::string>& names, const std::function<void(const std::string&)>& write,
                            const std::string& record) {
  check_export_directory(files, path, existing, record);
  const std::string directory = real_directory(path), parent = store::parent_path(directory);
  const bool there = files.info(directory).has_value();
  const bool empty = there && is_empty(files, directory);
  if (empty && !can_be_replaced(files, directory)) return fill(files, directory, names, write, record);
  files.make_directories(parent);
  sweep(files, directory);
  const std::string temporary = fmt::format("{}{}{}", directory, kTemporary, getpid());
  try {
    files.make_directories(temporary);
    fill(files, temporary, names, write, record);
    there && !empty ? files.exchange(temporary, directory) : files.rename(temporary, directory);
    files.sync_directory(parent);
  } catch (const std::exception&) {
    remove_quietly(files, temporary);
    throw;
  }
  remove_quietly(files, temporary);  // what was there before
}

void write_safetensors_directory(const std::string& directory, Existing existing,
                                 const std::vector<checkpoint::TensorView>& tensors,
                                 const std::vector<std::pair<std::string, std::string>>& descriptions,
                                 const std::string& record) {
  store::FileSystem& files = store::local_files();
  std::vector<std::string> names = {"model.safetensors"};
  for (const auto& [name, text] : descriptions) names.push_back(name);
  const auto write = [&](const std::string& folder) {
    store::write_atomic(files, store::join_path(folder, names[0]), [&](const std::string& temporary) {
      checkpoint::write_safetensors(files, temporary, tensors, {{"format", "pt"}});
    });
    for (const auto& [name, text] : descriptions) store::write_atomic(files, store::join_path(folder, name), text);
  };
  write_export_directory(files, directory, existing, names, write, record);
}

// The old checksum and record go first and the new ones come last: between them there is a file without, never with wrong ones.
void write_export_file(store::FileSystem& files, const std::string& path, Existing existing,
                       const std::function<void(const std::string&)>& write, const std::string& record) {
  check_export_file(files, path, existing, record);
  const std::string sum = path + std::string(store::kChecksumEnding), beside = path + std::string(kRecordEnding);
  const std::string directory = store::parent_path(path);
  files.make_directories(directory);
  std::string hex;
  store::write_atomic(files, path, [&](const std::string& temporary) {
    write(temporary);
    hex = store::to_hex(store::sha256_of(files, temporary));
    bool removed = false;
    for (const std::string& old : {sum, beside}) {
      if (!files.info(old)) continue;
      files.remove_file(old);
      removed = true;
    }
    if (removed) files.sync_directory(directory);
  });
  store::write_atomic(files, sum, fmt::format("{}  {}\n", hex, path.substr(path.rfind('/') + 1)));
  if (!record.empty()) store::write_atomic(files, beside, record);
}

}  // namespace tessera::inference
