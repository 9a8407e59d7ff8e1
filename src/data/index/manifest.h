#pragma once
// manifest.json: the shards that a finished `tessera data convert` wrote, beside them, with their samples, sizes and checksums.
// Whoever reads shards compares them with it, so that a conversion that was killed, or shards that were cut short or lost on
// the way, are not taken for a smaller data set. docs/data_manifest.md describes it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

inline constexpr std::string_view kManifestFile = "manifest.json";
// Beside shards of tar: the names of the classes, one a line.
inline constexpr std::string_view kClassList = "classes.txt";
// Beside the shards, or above their folder 1.0.0: what a conversion is to become; without a manifest it did not end.
inline constexpr std::string_view kConversionFile = "convert.json";
inline constexpr int kManifestVersion = 1;

struct ManifestFile {
  std::string name, split;
  int64_t samples = 0, size = 0;        // size in bytes
  std::string sha256;                   // 64 lower-case digits
  std::vector<bool> lists;              // of each text field, whether some sample has none of it, or several
  std::vector<std::string> unreadable;  // samples that were left out: "id: reason"
};

std::string manifest_line(const ManifestFile& file);
// Nothing for text that is no such line.
std::optional<ManifestFile> parse_manifest_line(std::string_view text);

std::string manifest_text(const std::vector<ManifestFile>& files);
// Nothing for JSON that is something else's (a common name); throws a data Error, naming `path`, for one of ours that is
// damaged or of a newer version.
std::optional<std::vector<ManifestFile>> parse_manifest(std::string_view text, const std::string& path);

// The samples of each shard, where manifests tell them of all. Throws a data Error at `where` for a shard of another size than
// its manifest says, where another shard of the same split is missing, and for shards of a conversion that did not end.
std::optional<std::vector<int64_t>> check_manifests(const std::vector<std::string>& paths, const std::string& where);

// A shard that is not what its manifest says.
struct DamagedShard {
  std::string path, reason;
};
// Reads every shard that a manifest lists, and compares its SHA-256, in the order of `paths`.
std::vector<DamagedShard> find_damaged_shards(const std::vector<std::string>& paths, int threads);

}  // namespace tessera::data
