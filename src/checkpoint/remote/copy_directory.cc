#include "checkpoint/remote/copy_directory.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "store/file.h"
#include "store/local/cache_directory.h"
#include "store/local/private_directory.h"

namespace tessera::remote {

std::string copy_directory(const std::string& url, const char* kind) {
  const std::string cache = store::cache_directory();
  if (cache.empty()) {
    throw usage_error("what is on a server needs a directory on this machine for its copy, and the cache is turned off",
                      one_line(url), "name a directory for it: --cache-dir DIR, or TESSERA_CACHE_DIR");
  }
  const store::PrivateDirectory parent = store::PrivateDirectory::make(store::join_path(cache, kind));
  return store::join_path(parent.path(), fmt::format("{}-{:016x}", store::last_part(url), hash128(url).low));
}

}  // namespace tessera::remote
