#include "data/index/manifest.h"

#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "base/text.h"
#include "store/buckets.h"
#include "store/checksums.h"
#include "store/file.h"

namespace tessera::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMark = "tessera_manifest";
constexpr size_t kMaxBytes = size_t{256} << 20;
// More samples, or bytes, than any shard has. A manifest may claim any number, and all of a set are added up.
constexpr int64_t kMaxOfShard = int64_t{1} << 50, kMaxOfSet = int64_t{1} << 60;

Json to_json(const ManifestFile& file) {
  Json json = {
      {"name", file.name}, {"split", file.split}, {"samples", file.samples}, {"bytes", file.size}, {"sha256", file.sha256}};
  if (!file.lists.empty()) json["lists"] = file.lists;
  if (!file.unreadable.empty()) json["unreadable"] = file.unreadable;
  return json;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A whole number of samples or bytes; -1 for what is none, whatever its type and size.
int64_t amount_of(const nlohmann::json& json) {
  return json.is_number_unsigned() && json.get<uint64_t>() <= uint64_t{kMaxOfShard} ? json.get<int64_t>() : -1;
}

std::optional<ManifestFile> from_json(const nlohmann::json& json) {
  try {
    ManifestFile file{json.at("name").get<std::string>(),
                      json.at("split").get<std::string>(),
                      amount_of(json.at("samples")),
                      amount_of(json.at("bytes")),
                      json.at("sha256").get<std::string>(),
                      json.value("lists", std::vector<bool>()),
                      json.value("unreadable", std::vector<std::string>())};
    const bool sound = file.samples >= 0 && file.size >= 0 && file.sha256.size() == 64 && !file.name.empty() &&
                       file.name.find('/') == std::string::npos;
    return sound ? std::optional(std::move(file)) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

// What manifest stands beside the shards of a folder, by their names.
using Entries = std::map<std::string, ManifestFile, std::less<>>;

std::optional<std::string> small_file(const std::string& path) {
  store::FileSystem& files = store::files_at(path);
  const auto info = files.info(path);
  if (!info || info->directory || info->size > static_cast<int64_t>(kMaxBytes)) return std::nullopt;
  return store::read_text(files, path);
}

// Whether `folder` has the plan of a conversion that writes a manifest when it ends.
bool has_plan(const std::string& folder) {
  const auto text = small_file(store::join_path(folder, kConversionFile));
  if (!text) return false;
  const auto json = read_json(*text).value;
  return json.is_object() && json.contains("manifest") && json.contains("splits");
}

std::optional<Entries> entries_of(const std::string& folder) {
  const std::string path = store::join_path(folder, kManifestFile);
  if (const auto text = small_file(path)) {
    if (auto files = parse_manifest(*text, path)) {
      Entries entries;
      for (ManifestFile& file : *files) entries.emplace(file.name, std::move(file));
      return entries;
    }
  }
  const bool version = folder.ends_with("/1.0.0");
  if (has_plan(folder) || (version && has_plan(store::parent_path(folder)))) {
    throw data_error(fmt::format("`{}` is a conversion that did not end: shards are missing", one_line(folder)), {},
                     "run the same `tessera data convert` again, which goes on where it stopped");
  }
  return std::nullopt;
}

void check_size(const std::string& path, const ManifestFile& wanted) {
  const auto info = store::files_at(path).info(path);
  if (!info || info->size == wanted.size) return;  // who opens it reports what is missing
  throw data_error(fmt::format("`{}` has {} bytes, but {} says {}", one_line(path), human_count(info->size), kManifestFile,
                               human_count(wanted.size)),
                   {}, "the file is cut short or was changed: copy or convert it again");
}

// The other shards of the splits in use are there too, even where a pattern finds fewer.
void check_present(const std::string& folder, const Entries& entries, const std::set<std::string>& splits) {
  for (const auto& [name, file] : entries) {
    const std::string path = store::join_path(folder, name);
    if (!splits.contains(file.split) || store::files_at(path).info(path)) continue;
    throw data_error(fmt::format("the shard `{}` is missing: {} lists it", one_line(path), kManifestFile), {},
                     fmt::format("copy or convert it again; where it is to be left out, remove {}",
                                 store::join_path(folder, kManifestFile)));
  }
}

}  // namespace

std::string manifest_line(const ManifestFile& file) { return dumped(to_json(file)) + "\n"; }

std::optional<ManifestFile> parse_manifest_line(std::string_view text) { return from_json(read_json(text).value); }

std::string manifest_text(const std::vector<ManifestFile>& files) {
  int64_t samples = 0, bytes = 0;
  std::string lines;
  for (const ManifestFile& file : files) {
    samples += file.samples, bytes += file.size;
    lines += fmt::format("{}\n    {}", lines.empty() ? "" : ",", dumped(to_json(file)));
  }
  return fmt::format("{{\n  \"{}\": {},\n  \"samples\": {},\n  \"bytes\": {},\n  \"files\": [{}\n  ]\n}}\n", kMark,
                     kManifestVersion, samples, bytes, lines);
}

std::optional<std::vector<ManifestFile>> parse_manifest(std::string_view text, const std::string& path) {
  const auto json = read_json(text, {.bytes = kMaxBytes}).value;
  if (!json.is_object() || !json.contains(kMark)) {
    if (text.find(fmt::format("\"{}\"", kMark)) == std::string_view::npos) return std::nullopt;
    throw data_error(fmt::format("`{}` is damaged: it is no JSON object", path), {}, "copy it again");
  }
  if (json[kMark] != kManifestVersion) {
    throw data_error(
        fmt::format("`{}` is of version {}, and this program knows {}", path, json[kMark].dump(), kManifestVersion), {},
        "use a newer program");
  }
  std::vector<ManifestFile> files;
  int64_t samples = 0, bytes = 0;
  const auto list = json.value("files", nlohmann::json());
  for (const nlohmann::json& one : list) {
    auto file = from_json(one);
    if (!file || (samples += file->samples) > kMaxOfSet || (bytes += file->size) > kMaxOfSet)
      throw data_error(fmt::format("`{}` is damaged: file {} of its list", path, files.size()), {}, "copy it again");
    files.push_back(*std::move(file));
  }
  return files;
}

namespace {

// The manifests of the folders that shards lie in.
class Manifests {
 public:
  const std::optional<Entries>& of(const std::string& folder) {
    const auto [at, fresh] = folders_.try_emplace(folder);
    if (fresh) at->second = entries_of(folder);
    return at->second;
  }
  // Null where no manifest lists it.
  const ManifestFile* find(const std::string& path) {
    const std::optional<Entries>& entries = of(store::parent_path(path));
    if (!entries) return nullptr;
    const auto entry = entries->find(std::string_view(path).substr(path.rfind('/') + 1));
    return entry == entries->end() ? nullptr : &entry->second;
  }

 private:
  std::map<std::string, std::optional<Entries>> folders_;
};

std::string compare_sum(const std::string& path, const ManifestFile& wanted) {
  try {
    const std::string sum = store::to_hex(store::sha256_of(store::files_at(path), path));
    return sum == wanted.sha256 ? "" : fmt::format("its SHA-256 is {}, and {} says {}", sum, kManifestFile, wanted.sha256);
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

std::vector<DamagedShard> find_damaged_shards(const std::vector<std::string>& paths, int threads) {
  Manifests manifests;
  std::vector<DamagedShard> shards;
  std::vector<const ManifestFile*> wanted;
  for (const std::string& path : paths) {
    if (const ManifestFile* file = manifests.find(path)) {
      shards.push_back({path, {}});
      wanted.push_back(file);
    }
  }
  const auto count = static_cast<int64_t>(shards.size());
  parallel_for(count, thread_count(threads, count), [&](int64_t i, int) {
    DamagedShard& shard = shards[static_cast<size_t>(i)];
    shard.reason = compare_sum(shard.path, *wanted[static_cast<size_t>(i)]);
  });
  std::erase_if(shards, [](const DamagedShard& shard) { return shard.reason.empty(); });
  return shards;
}

std::optional<std::vector<int64_t>> check_manifests(const std::vector<std::string>& paths, const std::string& where) {
  Manifests manifests;
  std::map<std::string, std::set<std::string>> splits;  // in use, of each folder
  std::vector<int64_t> counts;
  int64_t samples = 0;
  try {
    for (const std::string& path : paths) {
      const ManifestFile* file = manifests.find(path);
      if (!file) continue;
      check_size(path, *file);
      splits[store::parent_path(path)].insert(file->split);
      counts.push_back(file->samples);
      if ((samples += counts.back()) > kMaxOfSet) {
        throw data_error(fmt::format("{} of the shards tells of too many samples", kManifestFile));
      }
    }
    for (const auto& [folder, of_folder] : splits) check_present(folder, *manifests.of(folder), of_folder);
  } catch (const Error& error) {
    throw data_error(error.message(), where, error.help());
  }
  return !paths.empty() && counts.size() == paths.size() ? std::optional(std::move(counts)) : std::nullopt;
}

}  // namespace tessera::data
