#pragma once
// Addresses of buckets and servers where a path is expected.

#include <string>
#include <string_view>

namespace tessera::store {

// Whether `path` is scheme://…, as gs://bucket/folder.
bool is_url(std::string_view path);

// A usage Error at `where` for a URL, where only a path of this machine can be taken: a directory of such a name is never what was
// meant.
void refuse_url(std::string_view path, const std::string& where = {});

}  // namespace tessera::store
