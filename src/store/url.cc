#include "store/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/error.h"

namespace tessera::store {

bool is_url(std::string_view path) {
  const size_t end = path.find("://");
  if (end == std::string_view::npos || end == 0) return false;
  const auto in_scheme = [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '-' || c == '.'; };
  return std::isalpha(static_cast<unsigned char>(path[0])) && std::all_of(path.begin(), path.begin() + end, in_scheme);
}

namespace {

// `--workdir=~/runs` reaches the program as it is written, and would be a folder `~` here.
void refuse_tilde(std::string_view path, const std::string& where) {
  if (path != "~" && !path.starts_with("~/")) return;
  const char* home = std::getenv("HOME");
  throw usage_error(
      fmt::format("`{}` begins with ~, which shells alone replace, and not inside quotes or a word", path), where,
      fmt::format("write {}{}, or ./{} for a folder of that name", home == nullptr ? "$HOME" : home, path.substr(1), path));
}

}  // namespace

void refuse_url(std::string_view path, const std::string& where) {
  refuse_tilde(path, where);
  if (!is_url(path)) return;
  throw usage_error(fmt::format("`{}` is a URL, and a path of this machine is needed here", path), where,
                    "copy it, or mount it (gcsfuse, Mountpoint for S3, rclone mount), and give the local path");
}

bool is_bucket(std::string_view path) {
  return path.starts_with("s3://") || path.starts_with("gs://") || path.starts_with("az://");
}

bool is_remote(std::string_view path) {
  return is_bucket(path) || path.starts_with("https://") || path.starts_with("http://") || path.starts_with("hf://");
}

void refuse_writing(std::string_view path, const std::string& where) {
  refuse_tilde(path, where);
  if (!is_url(path) || is_bucket(path)) return;
  if (!is_remote(path)) refuse_url(path, where);
  throw usage_error(fmt::format("`{}` can be read, and not written", path), where,
                    "name a local path, or one of a bucket: s3://, gs:// or az://");
}

}  // namespace tessera::store
