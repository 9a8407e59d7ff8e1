#include "cli/commands/image_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "image/codec/decode.h"
#include "store/buckets.h"
#include "store/file.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEndings = "jpg, png, webp, bmp, gif, tif";

bool looks_like_image(const std::string& name) { return image::format_of_name(name) != image::ImageFormat::kUnknown; }

void add_folder(const std::string& folder, std::vector<std::string>& paths) {
  const size_t before = paths.size();
  const auto options = fs::directory_options::skip_permission_denied | fs::directory_options::follow_directory_symlink;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, options)) {
    if (!entry.is_directory() && looks_like_image(entry.path().string())) paths.push_back(entry.path().string());
  }
  if (paths.size() == before) throw data_error(fmt::format("the folder `{}` holds no images ({})", folder, kEndings));
  std::sort(paths.begin() + static_cast<ptrdiff_t>(before), paths.end());
}

// An address of an image, or of a folder of them.
void add_from_server(const std::string& url, std::vector<std::string>& paths) {
  if (looks_like_image(url)) return paths.push_back(url);
  const size_t before = paths.size();
  store::list_objects(url, [&](const std::string& name, const store::ListedObject&) {
    if (looks_like_image(name)) paths.push_back(store::join_path(url, name));
  });
  if (paths.size() == before) throw data_error(fmt::format("`{}` holds no images ({})", url, kEndings));
  std::sort(paths.begin() + static_cast<ptrdiff_t>(before), paths.end());
}

}  // namespace

std::vector<std::string> image_paths(const std::vector<std::string>& words) {
  std::vector<std::string> paths;
  for (const std::string& word : words) {
    if (store::is_remote(word)) {
      add_from_server(word, paths);
      continue;
    }
    store::refuse_url(word);
    std::error_code ignored;
    if (!fs::is_directory(word, ignored)) {
      paths.push_back(word);
      continue;
    }
    try {
      add_folder(word, paths);
    } catch (const fs::filesystem_error& error) {
      throw data_error(fmt::format("cannot list `{}`: {}", error.path1().string(), error.code().message()));
    }
  }
  return paths;
}

}  // namespace tessera::cli
