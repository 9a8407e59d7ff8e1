#pragma once
// A Python package index as pip uses it (PEP 503 and 691): a page for each project, as HTML or as JSON, that links its files with
// their hashes. Files are chosen by a pinned SHA-256, so that an index need not be trusted.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/web_client.h"
#include "pjrt/install/wheels.h"

namespace tessera::plugins {

// What pip would use.
struct IndexSettings {
  std::vector<std::string> urls;  // index-url, then extra-index-url; without a slash at the end
  std::string authorities;        // cert: a file of certificates to trust; empty: the system's
};
// $PIP_INDEX_URL, $PIP_EXTRA_INDEX_URL and $PIP_CERT, else pip.conf: of $VIRTUAL_ENV, of the user, of the system; $PIP_CONFIG_FILE
// alone counts where it is set. Else https://pypi.org/simple.
IndexSettings index_settings();

struct IndexFile {
  std::string url;
  int64_t size = -1;  // bytes, where the page says that
};
// The file of a project's page with this hash; nothing where it lists none. `page_url` is where the page came from: links may be
// relative to it. Throws a data Error at `where` for JSON that is no such page.
std::optional<IndexFile> find_in_page(std::string_view page, const std::string& page_url, const std::string& sha256,
                                      const std::string& where);

// Asks the indexes one after the other. Throws http::NotReached where one cannot be reached, and a data Error where none has the
// file, which says what they answered.
IndexFile find_wheel(http::WebClient& client, const IndexSettings& settings, const Wheel& wheel);

// An address as messages may show it: without user and password.
std::string without_credentials(const std::string& url);
// The address that a link means on the page `base` (RFC 3986, 5). User and password of the page's address go with it to the same
// server alone.
std::string resolve_link(const std::string& base, const std::string& link);

}  // namespace tessera::plugins
