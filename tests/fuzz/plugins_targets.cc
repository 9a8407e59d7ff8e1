#include <algorithm>

#include "fuzz/targets.h"
#include "pjrt/plugins/package_index.h"

namespace tessera::fuzz {
namespace {

// The page of a project. A file that is found has an address with a server, which shows no credentials.
bool package_index(std::string_view bytes) {
  const std::string hash(64, 'a');
  return parses([&] {
    const auto found = plugins::find_in_page(bytes, "https://me:secret@index.org/simple/libtpu/", hash, "fuzz");
    if (!found) return false;
    TESSERA_CHECK(found->url.find("://") != std::string::npos && found->size >= -1);
    TESSERA_CHECK(plugins::without_credentials(found->url).find("me:secret@index.org/") == std::string::npos);
    return true;
  });
}

}  // namespace

const std::vector<NamedTarget>& plugins_targets() {
  static const std::vector<NamedTarget> all = {{"package_index", package_index, 1024}};
  return all;
}

}  // namespace tessera::fuzz
