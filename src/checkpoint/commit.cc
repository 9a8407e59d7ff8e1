#include "checkpoint/commit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/digits.h"
#include "base/text/json.h"
#include "checkpoint/checkpoint.h"
#include "store/encoding/crc32c.h"
#include "store/url.h"

namespace tessera::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step_";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kStatePrefix = "state-", kStateSuffix = ".safetensors";
constexpr std::string_view kFormatName = "tessera checkpoint";
constexpr int64_t kMaxCommitBytes = 1 << 20;
constexpr const char* kElsewhereHelp = "copy what this directory has on each host of the run into one";

// The second checkpoint of a step has the first prefix. Short ones: a list of all files has to fit COMMIT.
constexpr int64_t kFirstPrefix = 2, kLastPrefix = 999;

std::string checksum_lines(std::string_view before) {
  return fmt::format("  \"crc32c\": \"{}\"\n}}\n", store::crc32c_text(store::crc32c(store::as_bytes(before))));
}

bool is_plain_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), plain);
}

// What may follow the process id in a temporary name: ".swap" (LocalFiles::exchange), or what saves of several processes by earlier
// versions left, ".3", ".3.failed" or ".3.failed.tmp-4711".
bool ends_as_ours(std::string_view suffix) {
  if (suffix.starts_with('.') && parse_digits(suffix.substr(1, suffix.find('.', 1) - 1))) {
    suffix.remove_prefix(std::min(suffix.find('.', 1), suffix.size()));
  }
  constexpr std::string_view kFailed = ".failed";
  if (suffix.empty() || suffix == ".swap" || suffix == kFailed) return true;
  return suffix.starts_with(kFailed) && suffix.substr(kFailed.size()).starts_with(kTemporary) &&
         parse_digits(suffix.substr(kFailed.size() + kTemporary.size()));
}

uint32_t parse_checksum(const std::string& text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc{} || end != text.data() + 8) throw data_error("not a checksum");
  return value;
}

// Of JSON. Throws where it is none, or does not fit.
int64_t count_at(const nlohmann::json& json, const char* key, const std::string& path) {
  const nlohmann::json& value = json.at(key);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
    throw damaged_file(path, fmt::format("its `{}` is no whole number from 0 on", key));
  return value.get<int64_t>();
}

void check_version(int64_t version, const std::string& path) {
  if (version >= kPlainVersion && version <= kHostsVersion) return;
  throw data_error(
      fmt::format("`{}` has format version {}; this program reads versions up to {}", path, version, kHostsVersion), {},
      "use the version of Tessera that wrote it");
}

// That of all files. Version 3 has one, version 4 may.
std::string_view prefix_of(const Commit& commit) {
  return commit.version < kPrefixVersion || commit.files.empty() ? "" : name_prefix(commit.files.front().name);
}

void check_list(const Commit& commit, const std::string& path) {
  if (commit.version == kPrefixVersion && prefix_of(commit).empty()) throw damaged_file(path, "its files have no prefix");
  const std::string state_json = state_json_name(commit);
  const auto is_json = [&](const CommittedFile& file) { return file.name == state_json; };
  if (std::count_if(commit.files.begin(), commit.files.end(), is_json) != 1) {
    throw damaged_file(path, fmt::format("it must list `{}` once", state_json));
  }
  if (state_files(commit)) return;
  throw damaged_file(path, fmt::format("it must list `{}{}`{} once", prefix_of(commit), kStateFile,
                                       commit.version == kPlainVersion ? "" : ", or else each of its numbered files,"));
}

}  // namespace

bool is_damage(const Error& error) { return error.help() == kDamagedHelp; }

bool is_elsewhere(const Error& error) { return error.help() == kElsewhereHelp; }

Error damaged_file(const std::string& path, std::string_view why) {
  return data_error(fmt::format("`{}` is damaged: {}", path, why), {}, kDamagedHelp);
}

std::string step_directory(int64_t step) { return fmt::format("{}{:09}", kPrefix, step); }

std::optional<DirectoryName> parse_directory_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = name.substr(kPrefix.size());
  const auto cut = rest.find(kTemporary);
  const auto step = parse_digits(rest.substr(0, cut));
  if (!step || !name.starts_with(step_directory(*step))) return std::nullopt;
  if (cut == std::string_view::npos) return DirectoryName{*step, {}};
  std::string_view suffix = rest.substr(cut + kTemporary.size());
  const auto writer = parse_digits(suffix.substr(0, suffix.find('.')));
  if (!writer) return std::nullopt;
  suffix.remove_prefix(std::min(suffix.find('.'), suffix.size()));
  if (!ends_as_ours(suffix)) return std::nullopt;
  return DirectoryName{*step, writer};
}

std::string commit_text(const Commit& commit) {
  TESSERA_CHECK(commit.run.empty() || is_plain_name(commit.run), "run `{}`", commit.run);
  std::string text =
      fmt::format("{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"step\": {},\n", kFormatName, commit.version, commit.step);
  if (!commit.run.empty()) text += fmt::format("  \"run\": \"{}\",\n", commit.run);
  text += "  \"files\": [";
  for (size_t i = 0; i < commit.files.size(); ++i) {
    const CommittedFile& file = commit.files[i];
    text += fmt::format("{}\n    {{\"name\": \"{}\", \"size\": {}, \"crc32c\": \"{}\"}}", i ? "," : "", file.name, file.size,
                        store::crc32c_text(file.crc32c));
  }
  text += "\n  ],\n";
  return text + checksum_lines(text);
}

std::optional<RunAtStep> parse_run_at_step(const std::string& text) {
  const size_t at = text.rfind('@');
  if (at == std::string::npos) return std::nullopt;
  const auto step = parse_digits(std::string_view(text).substr(at + 1));
  return step ? std::optional(RunAtStep{text.substr(0, at), *step}) : std::nullopt;
}

Error no_such_step(const RunAtStep& wanted, const std::vector<int64_t>& steps, const std::string& where) {
  return usage_error(fmt::format("`{}` has no checkpoint of step {}", one_line(wanted.run), wanted.step), where,
                     steps.empty() ? "it has none yet" : fmt::format("it has those of steps {}", fmt::join(steps, ", ")));
}

std::string state_file_name(size_t index, size_t count) {
  return count == 1 ? std::string(kStateFile) : fmt::format("{}{:05}-of-{:05}{}", kStatePrefix, index + 1, count, kStateSuffix);
}

std::string state_json_name(const Commit& commit) { return fmt::format("{}{}", prefix_of(commit), kStateJsonFile); }

std::string_view name_prefix(std::string_view name) {
  const size_t end = name.find('-');
  if (end == std::string_view::npos || !name.starts_with('r')) return {};
  const auto number = parse_digits(name.substr(1, end - 1));
  const bool ours = number && *number >= kFirstPrefix && *number <= kLastPrefix && name[1] != '0';
  return ours ? name.substr(0, end + 1) : std::string_view();
}

bool same_content(const Commit& a, const Commit& b) {
  const auto same = [](const CommittedFile& x, const CommittedFile& y) {
    return x.size == y.size && x.crc32c == y.crc32c &&
           x.name.substr(name_prefix(x.name).size()) == y.name.substr(name_prefix(y.name).size());
  };
  return a.step == b.step && a.run == b.run && std::ranges::equal(a.files, b.files, same);
}

std::string other_prefix(const Commit& there) {
  const std::string_view before = there.files.empty() ? "" : name_prefix(there.files.front().name);
  const int64_t last = before.empty() ? kLastPrefix : *parse_digits(before.substr(1, before.size() - 2));
  return fmt::format("r{}-", last == kLastPrefix ? kFirstPrefix : last + 1);
}

Commit with_prefix(Commit commit, std::string_view prefix) {
  for (CommittedFile& file : commit.files)
    file.name = fmt::format("{}{}", prefix, std::string_view(file.name).substr(name_prefix(file.name).size()));
  commit.version = kPrefixVersion;
  return commit;
}

std::optional<std::vector<size_t>> state_files(const Commit& commit) {
  std::map<std::string_view, size_t> found;
  const std::string_view prefix = prefix_of(commit);
  for (size_t i = 0; i < commit.files.size(); ++i) {
    std::string_view name = commit.files[i].name;
    if (!name.starts_with(prefix)) return std::nullopt;
    name.remove_prefix(prefix.size());
    const bool numbered = commit.version >= kPiecesVersion && name.starts_with(kStatePrefix) && name.ends_with(kStateSuffix);
    if ((numbered || name == kStateFile) && !found.emplace(name, i).second) return std::nullopt;
  }
  std::vector<size_t> in_order;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto one = found.find(state_file_name(i, found.size()));
    if (one == found.end()) return std::nullopt;
    in_order.push_back(one->second);
  }
  return in_order.empty() ? std::nullopt : std::optional(in_order);
}

Commit parse_file_list(std::string_view text, const std::string& path) {
  const auto end = text.rfind("  \"crc32c\": \"");
  if (end == std::string_view::npos) throw damaged_file(path, "its checksum is missing");
  if (text.substr(end) != checksum_lines(text.substr(0, end))) throw damaged_file(path, "its checksum does not fit");
  const auto [json, problem] = read_json(text);
  if (!problem.empty()) throw damaged_file(path, problem);
  try {
    if (json.at("format") != kFormatName) throw damaged_file(path, "it is not a checkpoint's");
    const int64_t version = count_at(json, "version", path);
    check_version(version, path);
    Commit commit{count_at(json, "step", path), {}, version};
    if (json.contains("run")) {
      commit.run = json.at("run").get<std::string>();
      if (!is_plain_name(commit.run)) throw damaged_file(path, "its `run` is no name");
    }
    for (const auto& item : json.at("files")) {
      commit.files.push_back({item.at("name").get<std::string>(), count_at(item, "size", path),
                              parse_checksum(item.at("crc32c").get<std::string>())});
      if (!is_plain_name(commit.files.back().name)) throw damaged_file(path, "it lists a file outside the checkpoint");
    }
    return commit;
  } catch (const nlohmann::json::exception& error) {
    throw damaged_file(path, error.what());
  }
}

Commit parse_commit(std::string_view text, const std::string& path) {
  Commit commit = parse_file_list(text, path);
  check_list(commit, path);
  return commit;
}

namespace {

// Gives what is known of a file of the directory. A server lists them all in one answer, and each question costs there.
std::function<std::optional<store::FileInfo>(const std::string& name)> file_infos(store::FileSystem& files,
                                                                                  const std::string& directory) {
  if (!store::is_bucket(directory))
    return [&files, directory](const std::string& name) { return files.info(store::join_path(directory, name)); };
  return [listed = files.list(directory)](const std::string& name) {
    const auto found = std::ranges::lower_bound(listed, name, {}, &store::FileInfo::name);
    return found == listed.end() || found->name != name ? std::nullopt : std::optional(*found);
  };
}

}  // namespace

Commit read_commit(store::FileSystem& files, const std::string& directory) {
  const std::string path = store::join_path(directory, kCommitFile);
  const auto info = files.info(path);
  if (!info)
    throw data_error(fmt::format("`{}` is half-written or half-removed: it has no {} file", directory, kCommitFile), {},
                     kDamagedHelp);
  if (info->size > kMaxCommitBytes) throw damaged_file(path, fmt::format("it has {} bytes", info->size));
  Commit commit = parse_commit(store::read_text(files, path), path);
  const auto info_of = file_infos(files, directory);
  for (const CommittedFile& file : commit.files) {
    const std::string file_path = store::join_path(directory, file.name);
    const auto found = info_of(file.name);
    if (!found && commit.version == kHostsVersion) continue;
    if (!found) throw data_error(fmt::format("`{}` is missing", file_path), {}, kDamagedHelp);
    if (found->size != file.size) {
      throw damaged_file(file_path, fmt::format("it has {} bytes, {} were written", found->size, file.size));
    }
  }
  return commit;
}

void expect_all_here(store::FileSystem& files, const std::string& directory, const Commit& commit) {
  if (commit.version != kHostsVersion) return;  // read_commit() has looked
  const auto missing = std::ranges::count_if(
      commit.files, [&](const CommittedFile& file) { return !files.info(store::join_path(directory, file.name)); });
  if (missing == 0) return;
  throw data_error(fmt::format("`{}` has the files of one host: {} of the checkpoint's {} are on other hosts", directory,
                               missing, commit.files.size()),
                   {}, kElsewhereHelp);
}

}  // namespace tessera::checkpoint
