#include "train/sweep/shared_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "data/cache/cache.h"
#include "store/file.h"
#include "store/local/private_directory.h"

namespace tessera::sweep {

int64_t memory_caches(config::Section recipe) {
  int64_t bytes = 0;
  recipe.visit_texts("cache", [&](const std::string& path, const std::string& where, const std::string& text) {
    if (!path.starts_with("data.") && !path.starts_with("eval.")) return;
    const data::CacheOptions options = data::parse_cache(text, where);
    if (options.kind == data::CacheOptions::Kind::kRam) bytes += options.limit;
  });
  return bytes;
}

bool read_the_same(const Variant& variant) {
  return std::ranges::none_of(variant, [](const auto& setting) {
    const std::string section = setting.first.substr(0, setting.first.find('.'));
    return (section == "data" || section == "eval") && setting.first != "data.batch";
  });
}

SharedCache::SharedCache(const std::string& sweep, const std::string& memory) {
  const std::string hash = to_string(hash128(std::filesystem::absolute(sweep).lexically_normal().string()));
  path_ = store::PrivateDirectory::make(store::join_path(memory, fmt::format("tessera-sweep-{}-{}", ::geteuid(), hash))).path();
  // Another user may have put a link there, to a directory of ours. What is ours, in a directory as /dev/shm, stays so.
  struct stat there;
  if (::lstat(path_.c_str(), &there) == 0 && S_ISDIR(there.st_mode) && there.st_uid == ::geteuid()) return;
  throw data_error(fmt::format("`{}` is no directory of this user's", path_), {}, "remove it, or have its owner do so");
}

SharedCache::~SharedCache() {
  std::error_code left;
  std::filesystem::remove_all(path_, left);
}

launch::Variable SharedCache::variable() const { return {data::kSharedCache, path_}; }

}  // namespace tessera::sweep
