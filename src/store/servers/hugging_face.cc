#include "store/servers/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/system/environment.h"
#include "base/text/text.h"
#include "store/file.h"
#include "store/small_file.h"

namespace tessera::store {
namespace {

bool is_true(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "TRUE" || value == "YES" || value == "ON";
}

}  // namespace

std::string hub_endpoint() {
  std::string server = environment_variable("HF_ENDPOINT");
  while (server.ends_with('/')) server.pop_back();
  return server.empty() ? "https://huggingface.co" : server;
}

std::string hub_token() {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (std::string value = environment_variable(name); !value.empty()) return value;
  }
  std::string path = environment_variable("HF_TOKEN_PATH");
  if (const std::string home = hugging_face_home(); path.empty() && !home.empty()) path = join_path(home, "token");
  if (path.empty() || !local_files().info(path)) return "";
  return std::string(trim(read_small_file(local_files(), path)));
}

std::string hugging_face_home() {
  if (std::string home = environment_variable("HF_HOME"); !home.empty()) return home;
  if (const std::string caches = environment_variable("XDG_CACHE_HOME"); !caches.empty())
    return join_path(caches, "huggingface");
  const std::string user = environment_variable("HOME");
  return user.empty() ? "" : join_path(user, ".cache/huggingface");
}

bool hub_offline() {
  return is_true(environment_variable("HF_HUB_OFFLINE")) || is_true(environment_variable("TRANSFORMERS_OFFLINE"));
}

HubPath parse_hub_path(std::string_view url) {
  constexpr std::string_view kScheme = "hf://";
  std::vector<std::string> parts = split(url.substr(std::min(url.size(), kScheme.size())), '/');
  HubPath out{"models", "", "main", ""};
  if (parts[0] == "datasets" || parts[0] == "spaces" || parts[0] == "models") {
    out.kind = parts[0];
    parts.erase(parts.begin());
  }
  if (parts.size() < 2 || parts[0].empty() || parts[1].empty()) {
    throw usage_error(fmt::format("`{}` names no repository of the Hub", one_line(url)), {},
                      "hf://datasets/OWNER/NAME/PATH, or hf://datasets/OWNER/NAME@REVISION/PATH");
  }
  if (const size_t at = parts[1].find('@'); at != std::string::npos) {
    out.revision = parts[1].substr(at + 1);
    parts[1].resize(at);
    if (out.revision == "~parquet") out.revision = "refs/convert/parquet";
  }
  out.name = parts[0] + "/" + parts[1];
  parts.erase(parts.begin(), parts.begin() + 2);
  std::erase(parts, "");
  out.path = join(parts, "/");
  return out;
}

}  // namespace tessera::store
