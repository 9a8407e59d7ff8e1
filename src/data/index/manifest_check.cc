#include "data/index/manifest_check.h"

#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "data/formats/manifest.h"
#include "store/checksums.h"
#include "store/file.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

// What manifest stands beside the shards of a folder, by their names.
using Entries = std::map<std::string, ManifestFile, std::less<>>;

std::optional<std::string> small_file(const std::string& path) {
  store::FileSystem& files = store::files_at(path);
  const auto info = files.info(path);
  if (!info || info->directory || info->size > static_cast<int64_t>(kMaxManifestBytes)) return std::nullopt;
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

// Without a manifest, a plan says that the conversion did not end.
std::string without_manifest(const std::string& folder) {
  const std::string above = folder.ends_with("/1.0.0") ? store::parent_path(folder) : folder;
  return one_line(
      fmt::format("remove {} and {}", store::join_path(folder, kManifestFile), store::join_path(above, kConversionFile)));
}

// The other shards of the splits in use are there too, even where a pattern finds fewer.
void check_listed_shards(const std::string& folder, const Entries& entries, const std::set<std::string>& splits) {
  for (const auto& [name, file] : entries) {
    const std::string path = store::join_path(folder, name);
    if (!splits.contains(file.split) || store::files_at(path).info(path)) continue;
    throw data_error(fmt::format("the shard `{}` is missing: {} lists it", one_line(path), kManifestFile), {},
                     "copy or convert it again; where it is to be left out, " + without_manifest(folder));
  }
}

std::string compare_sum(const std::string& path, const ManifestFile& wanted) {
  try {
    const std::string sum = store::to_hex(store::sha256_of(store::files_at(path), path));
    return sum == wanted.sha256 ? "" : fmt::format("its SHA-256 is {}, and {} says {}", sum, kManifestFile, wanted.sha256);
  } catch (const Error& error) {
    return error.message();
  }
}

// What the numbers in the shards mean.
void check_class_list(const std::string& folder, const Entries& entries) {
  for (const auto& [name, file] : entries) {
    if (!file.split.empty()) continue;
    const std::string path = store::join_path(folder, name);
    check_size(path, file);
    const std::string reason = compare_sum(path, file);
    if (reason.empty()) continue;
    // Without a manifest a list beside archives may be anybody's.
    const std::string named = name == kClassList ? fmt::format(", and name the list: wds(…, classes={})", one_line(path)) : "";
    throw data_error(
        fmt::format("the list of classes `{}` is damaged or was changed: {}", one_line(path), reason), {},
        fmt::format("copy or convert it again; where it is meant to be so, {}{}", without_manifest(folder), named));
  }
}

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
    for (const auto& [folder, of_folder] : splits) {
      check_class_list(folder, *manifests.of(folder));
      check_listed_shards(folder, *manifests.of(folder), of_folder);
    }
  } catch (const Error& error) {
    throw data_error(error.message(), where, error.help());
  }
  return !paths.empty() && counts.size() == paths.size() ? std::optional(std::move(counts)) : std::nullopt;
}

}  // namespace tessera::data
