#include "store/servers/buckets.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/system/environment.h"
#include "base/system/process.h"
#include "store/encoding/crc32c.h"
#include "store/local/cache_directory.h"
#include "store/local/leftovers.h"
#include "store/local/private_directory.h"
#include "store/servers/block_cache.h"
#include "store/servers/object_server.h"
#include "store/servers/retries.h"
#include "store/url.h"

namespace tessera::store {
namespace {

constexpr int64_t kCacheBytes = int64_t{512} << 20;
constexpr int64_t kCopiedPart = 8 << 20;  // of what is copied past the cache

// Blocks live as long as the process: loaders leave threads behind that may still read.
BlockCache& cache() {
  static auto& blocks = *new BlockCache(kCacheBytes);
  return blocks;
}

ObjectServer& server_of(std::string_view url) { return is_bucket(url) ? bucket_server() : web_server(); }

[[noreturn]] void ends_early(const std::string& url, int64_t offset, int64_t wanted) {
  throw data_error(fmt::format("`{}` ends too early: {} more bytes are wanted at {}", one_line(url), wanted, offset), {},
                   "the object was changed, or its server cut the answer short");
}

// A part of an object from `offset` on; as much as there is of it.
int64_t read_range(ServedObject& object, const std::string& url, int64_t offset, std::span<std::byte> out) {
  int64_t got = 0;
  ask("read", url, [&] { got = object.read(offset, out); });
  return got;
}

std::unique_ptr<ServedObject> open_object(const std::string& url, const ObjectInfo* known = nullptr) {
  std::unique_ptr<ServedObject> object;
  ask("open", url, [&] { object = server_of(url).open(url, known); });
  return object;
}

class RemoteFile final : public ReadableFile {
 public:
  explicit RemoteFile(const std::string& url) : RemoteFile(url, open_object(url)) {}
  RemoteFile(const std::string& url, const ListedObject& listed)
      : RemoteFile(url, open_listed_object(url, listed), fmt::format("{} {}", listed.size, listed.version)) {}

  int64_t size() const override { return size_; }
  uint64_t tag() const { return tag_; }

  void read(int64_t offset, std::span<std::byte> out) const override {
    if (offset < 0 || offset > size_ || static_cast<int64_t>(out.size()) > size_ - offset)
      ends_early(url_, offset, static_cast<int64_t>(out.size()));
    cache().read(number_, size_, offset, out, fetch());
  }

  void prefetch(int64_t offset, int64_t length) const override {
    offset = std::clamp<int64_t>(offset, 0, size_);
    try {
      cache().prefetch(number_, size_, offset, std::clamp<int64_t>(length, 0, size_ - offset), fetch());
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception&) {
      // Reading the bytes tries again, and reports it.
    }
  }

 private:
  // By reference, because a compiler may take `object` before its tag is asked for.
  explicit RemoteFile(const std::string& url, std::unique_ptr<ServedObject>&& object)
      : RemoteFile(url, std::move(object), object->tag()) {}
  RemoteFile(const std::string& url, std::unique_ptr<ServedObject>&& object, const std::string& version)
      : url_(url),
        object_(std::move(object)),
        size_(object_->size()),
        number_(Hasher().add(url).add(version).finish().low),
        tag_(hash128(version).low) {}

  static std::unique_ptr<ServedObject> open_listed_object(const std::string& url, const ListedObject& listed) {
    const ObjectInfo known{ObjectKind::kObject, listed.size, listed.version};
    return open_object(url, &known);
  }

  BlockCache::Fetch fetch() const {
    return [this](int64_t offset, std::span<std::byte> out) { fetch_range(offset, out); };
  }

  void fetch_range(int64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const int64_t got = read_range(*object_, url_, offset, out);
      if (got == 0) ends_early(url_, offset, static_cast<int64_t>(out.size()));
      out = out.subspan(static_cast<size_t>(got));
      offset += got;
    }
  }

  std::string url_;
  std::unique_ptr<ServedObject> object_;
  int64_t size_;
  uint64_t number_;  // in the cache
  uint64_t tag_;
};

// Small objects are opened twice: by the thread that reads ahead, and by the one that decodes. The latest stay open, so that the
// second time asks the server nothing.
class OpenObjects {
 public:
  using Open = std::function<std::unique_ptr<RemoteFile>()>;
  std::shared_ptr<const ReadableFile> get(const std::string& url, const Open& open) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = files_.find(url); found != files_.end()) return found->second;
    }
    std::shared_ptr<const ReadableFile> file = open();
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = files_.try_emplace(url, file);
    if (is_new) recent_.push_back(url);
    if (recent_.size() > kMaxEntries) {
      files_.erase(recent_.front());
      recent_.pop_front();
    }
    return file;
  }

 private:
  static constexpr size_t kMaxEntries = 4096;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const ReadableFile>> files_;
  std::list<std::string> recent_;
};

OpenObjects& open_objects() {
  static auto& objects = *new OpenObjects();  // as cache()
  return objects;
}

void list_folder(const std::string& url, bool deep, const std::function<void(std::string, const ObjectInfo&)>& visit) {
  std::vector<std::pair<std::string, ObjectInfo>> found;
  ask("list", url, [&] {
    found.clear();
    server_of(url).list(url, deep,
                        [&](std::string name, const ObjectInfo& info) { found.emplace_back(std::move(name), info); });
  });
  for (auto& [name, info] : found) visit(std::move(name), info);
}

FileInfo describe(std::string name, const ObjectInfo& info) {
  FileInfo described{std::move(name)};
  described.directory = info.kind == ObjectKind::kFolder;
  described.size = info.size;
  return described;
}

// What the server has now is what `from` is.
void write_checked(const ReadableFile& from, const std::string& url);

// What files in the directory below begin with. Several machines may have one cache directory, and the numbers of their processes
// tell nothing here.
std::string spool_prefix() {
  std::string host = host_name();
  std::ranges::replace(host, '/', '-');
  return host + "-";
}

bool is_spooled_here(std::string_view file) {
  const std::string prefix = spool_prefix();
  return file.starts_with(prefix) && file.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

// A directory for what is on its way from or to a bucket: in the cache, else where temporary files are.
std::string spool_directory() {
  const std::string cache = cache_directory();
  const PrivateDirectory directory = PrivateDirectory::make(
      cache.empty() ? fmt::format("{}/tessera-spool-{}", environment_variable("TMPDIR", "/tmp"), getuid())
                    : join_path(cache, "spool"));
  static const bool swept = [&] {
    remove_leftovers(*local_files().open_directory(directory.path()), is_spooled_here);
    return true;
  }();
  (void)swept;
  return directory.path();
}

// The name of a new file there, which is removed with this object.
class SpoolName {
 public:
  SpoolName() : path_(next_path()) {}
  ~SpoolName() { ::unlink(path_.c_str()); }
  SpoolName(const SpoolName&) = delete;
  SpoolName& operator=(const SpoolName&) = delete;

  const std::string& path() const { return path_; }

 private:
  static std::string next_path() {
    static std::atomic<int64_t> number = 0;
    return join_path(spool_directory(), fmt::format("{}{}.tmp-{}", spool_prefix(), ++number, getpid()));
  }

  const std::string path_;
};

// An object that is written: a file here until it is closed, then there.
class SpooledObject final : public WritableFile {
 public:
  explicit SpooledObject(std::string url) : url_(std::move(url)), file_(local_files().create(name_.path())) {}

  void write(std::span<const std::byte> bytes) override { file_->write(bytes); }
  void flush() override { file_->flush(); }
  void sync() override { file_->flush(); }
  void close() override {
    file_->close();
    write_checked(*local_files().open(name_.path()), url_);
  }
  FileInfo info() const override { return file_->info(); }

 private:
  const std::string url_;
  const SpoolName name_;
  const std::unique_ptr<WritableFile> file_;
};

class RemoteFiles final : public FileSystem {
 public:
  std::optional<FileInfo> info(const std::string& path) override {
    ObjectInfo found;
    ask("look at", path, [&] { found = server_of(path).info(path); });
    if (found.kind == ObjectKind::kNothing) return std::nullopt;
    return describe(last_part(path), found);
  }

  std::vector<FileInfo> list(const std::string& path) override {
    // Google Cloud Storage has no folders, and Arrow does not make them up: the parts of the objects' names do.
    const bool deep = path.starts_with("gs://");
    std::map<std::string, FileInfo> entries;
    list_folder(path, deep, [&](const std::string& name, const ObjectInfo& found) {
      const size_t slash = name.find('/');
      const std::string part = name.substr(0, slash);
      entries[part] = describe(part, slash == std::string::npos ? found : ObjectInfo{ObjectKind::kFolder});
    });
    std::vector<FileInfo> sorted;
    for (auto& [name, entry] : entries) sorted.push_back(std::move(entry));
    return sorted;
  }

  std::unique_ptr<ReadableFile> open(const std::string& path) override { return std::make_unique<RemoteFile>(path); }

  Bytes map(const std::string& path) override {
    const RemoteFile object(path);
    std::vector<std::byte> bytes(static_cast<size_t>(object.size()));
    object.read(0, bytes);
    return own_bytes(std::move(bytes));
  }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    refuse_writing(path);
    return std::make_unique<SpooledObject>(path);
  }
  std::unique_ptr<WritableFile> append(const std::string& path) override {
    refuse_writing(path);
    auto file = std::make_unique<SpooledObject>(path);
    if (const auto there = read_object(path)) file->write(as_bytes(*there));
    return file;
  }
  void remove_file(const std::string& path) override {
    refuse_writing(path);
    remove_object(path);
  }
  // Folders are parts of names.
  void make_directories(const std::string& path) override { refuse_writing(path); }
  void remove_directory(const std::string&) override {}
  void sync_directory(const std::string&) override {}

  void truncate(const std::string& path, int64_t) override { refuse(path); }
  std::unique_ptr<Directory> open_directory(const std::string& path) override { refuse(path); }
  void rename(const std::string& from, const std::string&) override { refuse(from); }
  void exchange(const std::string& a, const std::string&) override { refuse(a); }

 private:
  [[noreturn]] static void refuse(const std::string& path) {
    refuse_url(path);
    TESSERA_CHECK(false, "`{}` is no URL", path);
    std::terminate();
  }
};

// Calls visit(bytes) for the parts of an object, in order, past the cache.
void visit_object(const std::string& url, const std::function<void(std::span<const std::byte>)>& visit) {
  const auto object = open_object(url);
  const int64_t size = object->size();
  std::vector<std::byte> part(static_cast<size_t>(std::min(size, kCopiedPart)));
  for (int64_t offset = 0; offset < size;) {
    const std::span<std::byte> wanted = std::span(part).first(static_cast<size_t>(std::min(size - offset, kCopiedPart)));
    const int64_t got = read_range(*object, url, offset, wanted);
    if (got == 0) ends_early(url, offset, size - offset);
    visit(wanted.first(static_cast<size_t>(got)));
    offset += got;
  }
}

void write_checked(const ReadableFile& from, const std::string& url) {
  for (int tries = 1;; ++tries) {
    uint32_t handed_crc = 0;
    ask("write", url, [&] {
      int64_t offset = 0;
      handed_crc = 0;
      bucket_server().write(url, [&](std::span<std::byte> out) {
        const auto count = std::min(static_cast<int64_t>(out.size()), from.size() - offset);
        const std::span<std::byte> part = out.first(static_cast<size_t>(count));
        from.read(offset, part);
        offset += count;
        handed_crc = crc32c(part, handed_crc);
        return count;
      });
    });
    uint32_t crc = 0;
    visit_object(url, [&](std::span<const std::byte> bytes) { crc = crc32c(bytes, crc); });
    if (crc == handed_crc) return;
    if (tries == 2) {
      throw data_error(fmt::format("`{}` is not what was written to it", one_line(url)), {},
                       "another program writes to it, or the network changes bytes on the way");
    }
  }
}

// A text as a file.
class TextFile final : public ReadableFile {
 public:
  explicit TextFile(std::string_view text) : text_(text) {}
  int64_t size() const override { return static_cast<int64_t>(text_.size()); }
  void read(int64_t offset, std::span<std::byte> out) const override {
    std::ranges::copy(as_bytes(text_).subspan(static_cast<size_t>(offset), out.size()), out.begin());
  }

 private:
  std::string_view text_;
};

}  // namespace

FileSystem& files_at(std::string_view path) {
  static RemoteFiles remote;
  return is_remote(path) ? static_cast<FileSystem&>(remote) : local_files();
}

ObjectStamp object_stamp(const std::string& url) {
  const RemoteFile object(url);
  return {object.size(), object.tag()};
}

std::shared_ptr<const ReadableFile> open_recent(const std::string& url, const ListedObject* listed) {
  return open_objects().get(
      url, [&] { return listed ? std::make_unique<RemoteFile>(url, *listed) : std::make_unique<RemoteFile>(url); });
}

void list_objects(const std::string& url, const std::function<void(const std::string&, const ListedObject&)>& visit) {
  list_folder(url, true, [&](const std::string& name, const ObjectInfo& found) {
    if (found.kind == ObjectKind::kObject) visit(name, {found.size, found.version});
  });
}

void upload_file(const std::string& path, const std::string& url) { write_checked(*local_files().open(path), url); }

void write_object(const std::string& url, std::string_view text) { write_checked(TextFile(text), url); }

std::optional<std::string> read_object(const std::string& url) {
  if (!files_at(url).info(url)) return std::nullopt;
  std::string text;
  visit_object(url, [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  return text;
}

uint32_t download_file(const std::string& url, const std::string& path) {
  const std::unique_ptr<WritableFile> file = local_files().create(path);
  uint32_t crc = 0;
  visit_object(url, [&](std::span<const std::byte> bytes) {
    crc = crc32c(bytes, crc);
    file->write(bytes);
  });
  file->sync();
  file->close();
  return crc;
}

Bytes map_copy(const std::string& url) {
  const SpoolName name;
  download_file(url, name.path());
  return local_files().map(name.path());
}

void remove_object(const std::string& url) {
  ask("remove", url, [&] { bucket_server().remove(url); });
}

}  // namespace tessera::store
