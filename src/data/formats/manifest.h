#pragma once
// manifest.json: the shards that a finished `tessera data convert` wrote, and their list of classes, beside them, with their
// samples, sizes and checksums. docs/formats/data_manifest.md describes it; data/index/manifest_check.h compares them with it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

inline constexpr std::string_view kManifestFile = "manifest.json";
// Beside shards of tar: the names of the classes, one a line.
inline constexpr std::string_view kClassList = "classes.txt";
// A file beside the shards, or above their folder 1.0.0, that describes their conversion. Where it is and the manifest is not,
// the conversion did not end.
inline constexpr std::string_view kConversionFile = "convert.json";
inline constexpr int kManifestVersion = 1;
// Bounds of samples and of bytes above those of any data set. A manifest may claim any number, and all are added up.
inline constexpr int64_t kMaxOfSet = int64_t{1} << 60;
inline constexpr size_t kMaxManifestBytes = size_t{256} << 20;

struct ManifestFile {
  std::string name, split;              // a list of classes, which is of all splits, has none
  int64_t samples = 0, size = 0;        // size in bytes
  std::string sha256;                   // 64 lower-case digits
  std::vector<bool> lists;              // of each text field, whether some sample has none of it, or several
  std::vector<std::string> unreadable;  // samples that were left out: "id: reason"
};

std::string manifest_line(const ManifestFile& file);
// Nothing for text that is no such line.
std::optional<ManifestFile> parse_manifest_line(std::string_view text);

std::string manifest_text(const std::vector<ManifestFile>& files);
// Nothing for JSON that is not a manifest, since the name is a common one. Throws a data Error, naming `path`, for a manifest
// that is damaged or of a newer version.
std::optional<std::vector<ManifestFile>> parse_manifest(std::string_view text, const std::string& path);

}  // namespace tessera::data
