#pragma once
// Objects in buckets (s3://bucket/key, gs://bucket/key), read as files are. What is read lies in a cache of blocks, so that small
// reads side by side are one request, and prefetch() fetches ahead of those who read. Servers and credentials are found as their
// own tools find them (docs/buckets.md).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "store/file.h"

namespace tessera::store {

// Whether `path` is the address of an object that can be read: s3://… or gs://….
bool is_bucket(std::string_view path);

// The file system that a path to be read belongs to: of buckets, else local_files(). That of buckets has info(), list(), open()
// and map(), which reads the whole object; everything else throws refuse_url()'s Error. All throw a data Error that says what the
// server said and what to do.
FileSystem& files_at(std::string_view path);

// Size of an object, and a number made of its ETag or generation, which changes when it is written anew; one question to the
// server.
struct ObjectStamp {
  int64_t size = 0;
  uint64_t tag = 0;
};
ObjectStamp object_stamp(const std::string& url);

// Calls visit(name) for each object below a folder of a bucket, at any depth; `name` is relative to `url`.
void list_objects(const std::string& url, const std::function<void(const std::string& name)>& visit);

// Writing, one object at a time, for copies of a run's directory (src/remote). What fails and may pass is tried again. All throw a
// data Error that says what the server said and what to do.
//
// The bytes of a local file, as an object. They are read back from the server and compared; where they differ, they are written
// once more.
void upload_file(const std::string& path, const std::string& url);
// The same of a text.
void write_object(const std::string& url, std::string_view text);
// The whole object as it is now, past the cache; nothing where there is none.
std::optional<std::string> read_object(const std::string& url);
// An object as a new local file, synced; `url` is read past the cache. Gives the CRC-32C of its bytes.
uint32_t download_file(const std::string& url, const std::string& path);
// Whether or not it is there. A folder goes with all that is in it.
void remove_object(const std::string& url);

// What to do about `reason`, which Arrow gave; empty where that is not known. For messages.
std::string bucket_help(std::string_view reason);

}  // namespace tessera::store
