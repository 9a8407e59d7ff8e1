#pragma once
// Addresses of buckets and servers where a path is expected.

#include <string>
#include <string_view>

namespace tessera::store {

// Whether `path` is scheme://…, as gs://bucket/folder.
bool is_url(std::string_view path);

// Throws a usage Error at `where` for a URL or ~/…, where only a path of this machine can be taken: nobody means a directory of such
// a name.
void refuse_url(std::string_view path, const std::string& where = {});

// Whether `path` is the address of an object that can be read and written: s3://…, gs://… or az://….
bool is_bucket(std::string_view path);
// Whether `path` is an address that can be read: is_bucket(), https://…, http://… or hf://….
bool is_remote(std::string_view path);
// A usage Error at `where` for a URL that can't be written; what it says depends on whether it can be read.
void refuse_writing(std::string_view path, const std::string& where = {});

}  // namespace tessera::store
