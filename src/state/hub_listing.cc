#include "state/hub_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::state {
namespace {

bool is_hash(std::string_view text, size_t size) {
  return text.size() == size &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.front() != '.' &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; });
}

int64_t size_of(const nlohmann::json& entry, const std::string& name, const std::string& url) {
  try {
    return json_integer(entry.at("size"), 0, std::numeric_limits<int64_t>::max());
  } catch (const Error& error) {
    throw data_error(fmt::format("has as the size of `{}` {}", name, error.message()), url);
  }
}

}  // namespace

const HubFile* HubListing::find(std::string_view name) const {
  const auto at = std::ranges::find(files, name, &HubFile::name);
  return at == files.end() ? nullptr : &*at;
}

HubListing parse_hub_listing(std::string_view text, const std::string& url) {
  const nlohmann::json json = parse_json(text, url);
  HubListing out;
  try {
    out.commit = json.at("sha").get<std::string>();
    if (!is_hash(out.commit, 40)) throw data_error("names no commit", url);
    for (const nlohmann::json& entry : json.at("siblings")) {
      HubFile file{entry.at("rfilename").get<std::string>(), 0, "", entry.contains("lfs") && entry["lfs"].is_object()};
      if (!is_file_name(file.name)) continue;
      file.size = size_of(entry, file.name, url);
      file.hash = file.large ? entry["lfs"].at("sha256").get<std::string>() : entry.at("blobId").get<std::string>();
      if (!is_hash(file.hash, file.large ? 64 : 40)) throw data_error(fmt::format("has no hash of `{}`", file.name), url);
      out.files.push_back(std::move(file));
    }
  } catch (const nlohmann::json::exception& error) {
    throw data_error(fmt::format("is no listing of a model: {}", error.what()), url);
  }
  return out;
}

}  // namespace tessera::state
