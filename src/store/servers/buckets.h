#pragma once
// Objects in buckets (s3://bucket/key, gs://bucket/key, az://container/key), read and written as files are, and files of web servers
// (https://…, hf://datasets/OWNER/NAME/…), which are only read. What is read lies in a cache of blocks, so that small reads side by
// side are one request, and prefetch() fetches ahead of those who read. Servers and credentials are found as their own tools find
// them (docs/buckets.md).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "store/file.h"

namespace tessera::store {

// The file system that a path belongs to: of servers where is_remote(), else local_files(). That of servers has no renaming, no
// truncate() and no open_directory(): they throw refuse_url()'s Error. map() reads the whole object. What create() and append() make
// is a file here, which becomes the object in close(), all at once; writing is checked as in upload_file(). Directories need not be
// made, and there is no web server that lists files but hf://'s. All throw a data Error that says what the server said and what to do.
FileSystem& files_at(std::string_view path);

// Size of an object, and a number made of its ETag or generation, which changes when it is written anew; one question to the
// server.
struct ObjectStamp {
  int64_t size = 0;
  uint64_t tag = 0;
};
ObjectStamp object_stamp(const std::string& url);

// What a listing tells of an object.
struct ListedObject {
  int64_t size = 0;
  int64_t version = 0;  // another number once the object is written anew, as the time of that; 0: not known
};
// Calls visit(name, listed) for each object below a folder, at any depth; `name` is relative to `url`.
void list_objects(const std::string& url,
                  const std::function<void(const std::string& name, const ListedObject& listed)>& visit);

// An object that is opened again and again: the latest few thousand stay open, as they were then. With what a listing said the
// server need not be asked for the size.
std::shared_ptr<const ReadableFile> open_recent(const std::string& url, const ListedObject* listed = nullptr);

// Writing, one object at a time, for copies of a run's directory (src/checkpoint/remote). What fails and may pass is tried again. All throw a
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
// The whole object as it is now, mapped from a file in the cache directory that has no name: it takes room there as long as the
// bytes are held, and a process that is killed leaves nothing.
Bytes map_copy(const std::string& url);
// Whether or not it is there. A folder goes with all that is in it.
void remove_object(const std::string& url);

}  // namespace tessera::store
