#pragma once
// What servers of the web answer, as web_server.cc reads it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/servers/object_server.h"

namespace tessera::store {

// A number of bytes; nothing for other texts.
std::optional<int64_t> parse_length(std::string_view header);

// Of "bytes 0-499/1234" or "bytes */1234".
struct ContentRange {
  std::optional<int64_t> first, size;
};
ContentRange parse_content_range(std::string_view header);

// The address of the next page: Link: <https://…>; rel="next". Empty where there is none.
std::string next_page(std::string_view link);

// A page of the Hub's listing of a repository: what is below `folder` (empty: the repository itself) is visited under its name
// there. Names that would lead out of the folder are left out. Throws ServerError for what is no such page.
void read_hub_tree(std::string_view json, std::string_view folder, const ObjectServer::Visit& visit);

}  // namespace tessera::store
