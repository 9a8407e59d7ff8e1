#include "data/formats/manifest.h"

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::data {
namespace {

using nlohmann::ordered_json;

constexpr const char* kMark = "tessera_manifest";
constexpr int64_t kMaxOfShard = int64_t{1} << 50;

ordered_json to_json(const ManifestFile& file) {
  ordered_json json = {
      {"name", file.name}, {"split", file.split}, {"samples", file.samples}, {"bytes", file.size}, {"sha256", file.sha256}};
  if (!file.lists.empty()) json["lists"] = file.lists;
  if (!file.unreadable.empty()) json["unreadable"] = file.unreadable;
  return json;
}

std::string dumped(const ordered_json& json) { return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

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
  const auto json = read_json(text, {.bytes = kMaxManifestBytes}).value;
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

}  // namespace tessera::data
