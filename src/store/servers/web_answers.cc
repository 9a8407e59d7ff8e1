#include "store/servers/web_answers.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/digits.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace tessera::store {
namespace {

// From the hash that the Hub lists for a file.
int64_t version_of(const nlohmann::json& entry) {
  return static_cast<int64_t>(hash128(entry.at("oid").get<std::string>()).low >> 1);
}

bool stays_inside(const std::string& name) {
  return name.find('\0') == std::string::npos && std::ranges::none_of(split(name, '/'), [](const std::string& part) {
           return part.empty() || part == "." || part == "..";
         });
}

}  // namespace

std::optional<int64_t> parse_length(std::string_view header) { return parse_digits(header); }

ContentRange parse_content_range(std::string_view header) {
  constexpr std::string_view kBytes = "bytes ";
  if (!header.starts_with(kBytes)) return {};
  header.remove_prefix(kBytes.size());
  const size_t slash = header.find('/'), dash = header.find('-');
  if (slash == std::string_view::npos) return {};
  return {dash < slash ? parse_length(header.substr(0, dash)) : std::nullopt, parse_length(header.substr(slash + 1))};
}

std::string next_page(std::string_view link) {
  const size_t begin = link.find('<'), end = link.find('>', begin);
  if (begin == std::string::npos || end == std::string::npos || link.find("rel=\"next\"") == std::string::npos) return "";
  return std::string(link.substr(begin + 1, end - begin - 1));
}

void read_hub_tree(std::string_view json, std::string_view folder, const ObjectServer::Visit& visit) {
  const auto refuse = [] { throw ServerError("the server's listing is none", "look at HF_ENDPOINT", false); };
  const JsonResult read = read_json(json);
  if (!read.value.is_array()) refuse();
  const std::string below = folder.empty() ? "" : std::string(folder) + "/";
  std::vector<std::pair<std::string, ObjectInfo>> found;
  try {
    for (const nlohmann::json& entry : read.value) {
      const auto path = entry.at("path").get<std::string>();
      if (path.size() <= below.size() || !path.starts_with(below)) continue;
      std::string name = path.substr(below.size());
      if (!stays_inside(name)) continue;
      ObjectInfo info{ObjectKind::kFolder};
      if (entry.at("type").get<std::string>() != "directory") {
        info = {ObjectKind::kObject, json_integer(entry.at("size"), 0, std::numeric_limits<int64_t>::max()), version_of(entry)};
      }
      found.emplace_back(std::move(name), info);
    }
  } catch (const nlohmann::json::exception&) {
    refuse();
  } catch (const Error&) {
    refuse();
  }
  for (auto& [name, info] : found) visit(std::move(name), info);
}

}  // namespace tessera::store
