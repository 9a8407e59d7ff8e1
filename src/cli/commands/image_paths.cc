#include "cli/commands/image_paths.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"
#include "data/index/listing.h"
#include "data/read_file.h"
#include "image/codec/decode.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

void add_below(const std::string& folder, std::vector<std::string>& paths) {
  std::vector<std::string> deeper;
  data::list_directory(folder, [&](std::string_view name, data::EntryKind kind) {
    if (kind == data::EntryKind::kFile) paths.push_back(store::join_path(folder, name));
    if (kind == data::EntryKind::kDirectory) deeper.push_back(store::join_path(folder, name));
  });
  for (const std::string& one : deeper) add_below(one, paths);
}

void add_folder(std::string folder, std::vector<std::string>& paths) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const size_t before = paths.size();
  add_below(folder, paths);
  if (paths.size() == before) throw data_error(fmt::format("the folder `{}` holds no images", one_line(folder)));
  std::sort(paths.begin() + static_cast<ptrdiff_t>(before), paths.end());
}

// An address of an image, or of a folder of them.
void add_from_server(const std::string& url, std::vector<std::string>& paths) {
  if (image::format_of_name(url) != image::ImageFormat::kUnknown) return paths.push_back(url);
  const size_t before = paths.size();
  store::list_objects(url, [&](const std::string& name, const store::ListedObject&) {
    const bool hidden = name.starts_with('.') || name.find("/.") != std::string::npos;
    if (!hidden) paths.push_back(store::join_path(url, name));
  });
  if (paths.size() == before) throw data_error(fmt::format("`{}` holds no images", one_line(url)));
  std::sort(paths.begin() + static_cast<ptrdiff_t>(before), paths.end());
}

void add_stdin(std::vector<std::string>& paths) {
  if (std::ranges::find(paths, data::kStdin) != paths.end())
    throw usage_error("`-` stands for stdin, which has one image, and is given twice", {}, "write the others to files");
  if (::isatty(STDIN_FILENO))
    throw usage_error("`-` stands for an image from stdin, which is a terminal", {},
                      "for example: curl URL | tessera predict --from RUN -");
  paths.emplace_back(data::kStdin);
}

}  // namespace

std::vector<std::string> image_paths(const std::vector<std::string>& words) {
  std::vector<std::string> paths;
  for (const std::string& word : words) {
    if (store::is_remote(word)) {
      add_from_server(word, paths);
      continue;
    }
    if (word == data::kStdin) {
      add_stdin(paths);
      continue;
    }
    store::refuse_url(word);
    std::error_code ignored;
    if (!fs::is_directory(word, ignored)) {
      paths.push_back(word);
      continue;
    }
    add_folder(word, paths);
  }
  return paths;
}

}  // namespace tessera::cli
