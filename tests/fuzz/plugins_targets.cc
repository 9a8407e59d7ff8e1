#include <algorithm>

#include "fuzz/targets.h"
#include "pjrt/install/package_index.h"

namespace tessera::fuzz {
namespace {

// The page of a project. A file that is found has an address with a server, which shows no credentials.
bool package_index(std::string_view bytes) {
  const std::string hash(64, 'a');
  return parses([&] {
    const auto found = plugins::find_in_page(bytes, "https://me:secret@index.org/simple/libtpu/", hash, "fuzz");
    if (!found) return false;
    TESSERA_CHECK(found->url.find("://") != std::string::npos && found->size >= -1);
    const std::string shown = plugins::without_credentials(found->url);
    const size_t server = shown.find("://") + 3;
    TESSERA_CHECK(shown.substr(server, shown.find_first_of("/?#", server) - server).find('@') == std::string::npos);
    return true;
  });
}

}  // namespace

const std::vector<NamedTarget>& plugins_targets() {
  static const std::vector<NamedTarget> all = {{"package_index", package_index, 1024}};
  return all;
}

}  // namespace tessera::fuzz
