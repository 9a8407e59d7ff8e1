#include "checkpoint/remote/fetch_weights.h"

#include <fmt/format.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "base/hash.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "checkpoint/remote/copy_directory.h"
#include "store/checksums.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::remote {
namespace {

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr const char* kWeights[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"};

bool is_there(const std::string& url) {
  const auto info = store::files_at(url).info(url);
  return info && !info->directory;
}

// Files beside each other on a server.
class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  std::string url(const std::string& name) const { return store::join_path(folder_, name); }
  void add(const std::string& name) { names_.push_back(name); }
  bool add_if_there(const std::string& name) {
    if (!is_there(url(name))) return false;
    add(name);
    return true;
  }
  // The weights, and with an index the files that it names; who reads the index says what is wrong with it.
  void add_weights(const std::string& name) {
    add(name);
    if (!name.ends_with(kIndexEnding)) return;
    const auto index = read_json(store::read_small_file(store::files_at(folder_), url(name))).value;
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) return;
    std::set<std::string> files;
    for (const auto& [array, file] : index["weight_map"].items()) {
      if (file.is_string() && file.get<std::string>().find('/') == std::string::npos) files.insert(file.get<std::string>());
    }
    for (const std::string& file : files) add_if_there(file);
  }

  // A directory of the cache that has them all, as they are now.
  std::string fetch() const {
    Hasher versions;
    int64_t bytes = 0;
    for (const std::string& name : names_) {
      const store::ObjectStamp stamp = store::object_stamp(url(name));
      versions.add(fmt::format("{} {} {}", name, stamp.size, stamp.tag));
      bytes += stamp.size;
    }
    std::string to = copy_directory(folder_ + "#" + to_string(versions.finish()), "fetched");
    store::FileSystem& files = store::local_files();
    if (files.info(to)) return to;
    log_line(fmt::format("fetching {} ({})", one_line(folder_), human_bytes(static_cast<double>(bytes))));
    const std::string temporary = fmt::format("{}.tmp-{}", to, getpid());
    try {
      files.make_directories(temporary);
      for (const std::string& name : names_) store::download_file(url(name), store::join_path(temporary, name));
      files.rename(temporary, to);
    } catch (const InternalError&) {
      throw;
    } catch (...) {
      if (files.info(temporary)) store::remove_tree(files, temporary);
      if (!files.info(to)) throw;  // else another process was quicker
    }
    return to;
  }

 private:
  std::string folder_;
  std::vector<std::string> names_;
};

}  // namespace

std::string fetch_weight_file(const std::string& url) {
  const std::string name = store::last_part(url);
  Files files(store::parent_path(url));
  files.add_weights(name);
  files.add_if_there(std::string(store::kChecksumList));
  files.add_if_there(name + std::string(store::kChecksumEnding));
  return store::join_path(files.fetch(), name);
}

std::string fetch_weight_directory(const std::string& url) {
  Files files(url);
  if (!files.add_if_there("config.json")) return "";
  files.add_if_there("preprocessor_config.json");
  for (const char* name : kWeights) {
    if (!is_there(files.url(name))) continue;
    files.add_weights(name);
    break;
  }
  files.add_if_there(std::string(store::kChecksumList));
  return files.fetch();
}

}  // namespace tessera::remote
