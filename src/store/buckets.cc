#include "store/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <map>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/printable.h"
#include "base/shared_library.h"
#include "store/block_cache.h"
#include "store/buckets_module.h"
#include "store/crc32c.h"
#include "store/url.h"

namespace tessera::store {
namespace {

constexpr int64_t kCacheBytes = int64_t{512} << 20;
constexpr int64_t kPart = 8 << 20;  // of what is copied past the cache

const Module kModule{
    .file = "tessera_buckets.so",
    .environment = "TESSERA_BUCKETS",
    .function = "tessera_buckets_api",
    .needed_by = "paths in buckets need",
    .help_missing = "./dev parquet-deps fetches Arrow's library and builds it; TESSERA_BUCKETS=FILE names it elsewhere",
    .help_unloadable = "./dev parquet-deps fetches Arrow's library and builds it; TESSERA_BUCKETS=FILE names it elsewhere"};

const TesseraBucketsApi& api() {
  static const TesseraBucketsApi& loaded = module_api<TesseraBucketsApi>(kModule, kTesseraBucketsVersion);
  return loaded;
}

// Blocks live as long as the process: loaders leave threads behind that may still read.
BlockCache& cache() {
  static auto& blocks = *new BlockCache(kCacheBytes);
  return blocks;
}

// What Arrow gives up at once and is over a moment later: it tries again after 500, 503 and broken connections only.
bool is_passing(std::string_view reason) {
  constexpr auto kWords = std::to_array<std::string_view>({"HTTP status 429", "HTTP status 502", "HTTP status 504",
                                                           "Throttling", "the answer is shorter", "ends too early",
                                                           "Unsupported protocol", "json input is not an object"});
  return std::ranges::any_of(kWords, [&](std::string_view word) { return reason.find(word) != std::string_view::npos; });
}

// Calls `call`, which gives false and sets the reason where it fails, until it succeeds; a failure that passes is tried again
// after a growing pause. `action` completes "cannot … `url`".
void ask(std::string_view action, const std::string& url, const std::function<bool(char** reason)>& call) {
  constexpr int kTries = 5;
  auto pause = std::chrono::milliseconds(100);
  for (int tries = 1;; ++tries) {
    char* reason = nullptr;
    if (call(&reason)) return;
    if (!reason) throw std::bad_alloc();
    const std::string text = reason;
    api().free_text(reason);
    if (tries == kTries || !is_passing(text)) {
      // google-cloud-cpp says everything a second time behind this.
      const std::string_view shown = std::string_view(text).substr(0, text.find(" error_info={"));
      throw data_error(fmt::format("cannot {} `{}`: {}", action, one_line(url), one_line(shown)), {}, bucket_help(text));
    }
    std::this_thread::sleep_for(pause);
    pause *= 3;
  }
}

[[noreturn]] void ends_early(const std::string& url, int64_t offset, int64_t wanted) {
  throw data_error(fmt::format("`{}` ends too early: {} more bytes are wanted at {}", one_line(url), wanted, offset), {},
                   "the object was changed, or its server cut the answer short");
}

// A part of an object from `offset` on; as much as there is of it.
int64_t read_range(void* object, const std::string& url, int64_t offset, std::span<std::byte> out) {
  int64_t got = 0;
  ask("read", url, [&](char** reason) {
    got = api().read(object, offset, static_cast<int64_t>(out.size()), out.data(), reason);
    return got >= 0;
  });
  return got;
}

std::unique_ptr<void, void (*)(void*)> open_object(const std::string& url) {
  std::unique_ptr<void, void (*)(void*)> object(nullptr, api().close);
  ask("open", url, [&](char** reason) {
    object.reset(api().open(url.c_str(), reason));
    return object != nullptr;
  });
  return object;
}

class BucketObject final : public ReadableFile {
 public:
  explicit BucketObject(const std::string& url) : url_(url), object_(open_object(url)) {
    size_ = api().size(object_.get());
    const Hash128 identity = Hasher().add(url).add(api().tag(object_.get())).finish();
    number_ = identity.low;
    tag_ = hash128(api().tag(object_.get())).low;
  }

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
    } catch (const std::exception&) {
      // Reading the bytes tries again, and reports it.
    }
  }

 private:
  BlockCache::Fetch fetch() const {
    return [this](int64_t offset, std::span<std::byte> out) { fetch_range(offset, out); };
  }

  void fetch_range(int64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const int64_t got = read_range(object_.get(), url_, offset, out);
      if (got == 0) ends_early(url_, offset, static_cast<int64_t>(out.size()));
      out = out.subspan(static_cast<size_t>(got));
      offset += got;
    }
  }

  std::string url_;
  std::unique_ptr<void, void (*)(void*)> object_;
  int64_t size_ = 0;
  uint64_t number_ = 0;  // in the cache
  uint64_t tag_ = 0;
};

void list_folder(const std::string& url, bool deep, const std::function<void(std::string, const TesseraBucketsInfo&)>& visit) {
  std::vector<std::pair<std::string, TesseraBucketsInfo>> found;
  const auto add = [](void* to, const char* name, const TesseraBucketsInfo* info) {
    static_cast<decltype(found)*>(to)->emplace_back(name, *info);
  };
  ask("list", url, [&](char** reason) {
    found.clear();
    return api().list(url.c_str(), deep, &found, add, reason) != 0;
  });
  for (auto& [name, info] : found) visit(std::move(name), info);
}

FileInfo describe(std::string name, const TesseraBucketsInfo& info) {
  FileInfo described{std::move(name)};
  described.directory = info.kind == TESSERA_BUCKETS_FOLDER;
  described.size = info.size;
  return described;
}

class BucketFiles final : public FileSystem {
 public:
  std::optional<FileInfo> info(const std::string& path) override {
    TesseraBucketsInfo found{};
    ask("look at", path, [&](char** reason) { return api().info(path.c_str(), &found, reason) != 0; });
    if (found.kind == TESSERA_BUCKETS_NOTHING) return std::nullopt;
    return describe(last_part(path), found);
  }

  std::vector<FileInfo> list(const std::string& path) override {
    // Google Cloud Storage has no folders, and Arrow does not make them up: the parts of the objects' names do.
    const bool deep = path.starts_with("gs://");
    std::map<std::string, FileInfo> entries;
    list_folder(path, deep, [&](const std::string& name, const TesseraBucketsInfo& found) {
      const size_t slash = name.find('/');
      const std::string part = name.substr(0, slash);
      entries[part] = describe(part, slash == std::string::npos ? found : TesseraBucketsInfo{TESSERA_BUCKETS_FOLDER, 0});
    });
    std::vector<FileInfo> sorted;
    for (auto& [name, entry] : entries) sorted.push_back(std::move(entry));
    return sorted;
  }

  std::unique_ptr<ReadableFile> open(const std::string& path) override { return std::make_unique<BucketObject>(path); }

  Bytes map(const std::string& path) override {
    const BucketObject object(path);
    std::vector<std::byte> bytes(static_cast<size_t>(object.size()));
    object.read(0, bytes);
    return own_bytes(std::move(bytes));
  }

  std::unique_ptr<WritableFile> create(const std::string& path) override { refuse(path); }
  std::unique_ptr<WritableFile> append(const std::string& path) override { refuse(path); }
  void truncate(const std::string& path, int64_t) override { refuse(path); }
  std::unique_ptr<Directory> open_directory(const std::string& path) override { refuse(path); }
  void make_directories(const std::string& path) override { refuse(path); }
  void rename(const std::string& from, const std::string&) override { refuse(from); }
  void exchange(const std::string& a, const std::string&) override { refuse(a); }
  void remove_file(const std::string& path) override { refuse(path); }
  void remove_directory(const std::string& path) override { refuse(path); }
  void sync_directory(const std::string& path) override { refuse(path); }

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
  const int64_t size = api().size(object.get());
  std::vector<std::byte> part(static_cast<size_t>(std::min(size, kPart)));
  for (int64_t offset = 0; offset < size;) {
    const std::span<std::byte> wanted = std::span(part).first(static_cast<size_t>(std::min(size - offset, kPart)));
    const int64_t got = read_range(object.get(), url, offset, wanted);
    if (got == 0) ends_early(url, offset, size - offset);
    visit(wanted.first(static_cast<size_t>(got)));
    offset += got;
  }
}

// What was handed over of a file so far.
struct Handed {
  const ReadableFile* from;
  int64_t offset = 0;
  uint32_t crc = 0;
  std::exception_ptr failure;
};

int64_t hand_over(void* context, void* out, int64_t capacity) {
  auto& handed = *static_cast<Handed*>(context);
  try {
    const int64_t count = std::min(capacity, handed.from->size() - handed.offset);
    const std::span bytes(static_cast<std::byte*>(out), static_cast<size_t>(count));
    handed.from->read(handed.offset, bytes);
    handed.crc = crc32c(bytes, handed.crc);
    handed.offset += count;
    return count;
  } catch (...) {
    handed.failure = std::current_exception();
    return -1;
  }
}

// What the server has now is what `from` is.
void write_checked(const ReadableFile& from, const std::string& url) {
  for (int tries = 1;; ++tries) {
    Handed handed{&from};
    ask("write", url, [&](char** reason) {
      handed = {&from};
      const bool written = api().write(url.c_str(), &handed, hand_over, reason) != 0;
      if (!handed.failure) return written;
      if (*reason) api().free_text(*reason);
      std::rethrow_exception(handed.failure);
    });
    uint32_t crc = 0;
    visit_object(url, [&](std::span<const std::byte> bytes) { crc = crc32c(bytes, crc); });
    if (crc == handed.crc) return;
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

bool is_bucket(std::string_view path) { return path.starts_with("s3://") || path.starts_with("gs://"); }

FileSystem& files_at(std::string_view path) {
  static BucketFiles buckets;
  return is_bucket(path) ? static_cast<FileSystem&>(buckets) : local_files();
}

ObjectStamp object_stamp(const std::string& url) {
  const BucketObject object(url);
  return {object.size(), object.tag()};
}

void list_objects(const std::string& url, const std::function<void(const std::string&)>& visit) {
  list_folder(url, true, [&](const std::string& name, const TesseraBucketsInfo& found) {
    if (found.kind == TESSERA_BUCKETS_OBJECT) visit(name);
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

void remove_object(const std::string& url) {
  ask("remove", url, [&](char** reason) { return api().remove(url.c_str(), reason) != 0; });
}

std::string bucket_help(std::string_view reason) {
  struct Case {
    std::string_view word, help;
  };
  // What Arrow, the AWS SDK and google-cloud-cpp write. The first that is found counts.
  constexpr auto kCases = std::to_array<Case>({
      {"INVALID_ACCESS_KEY_ID", "the access key is not known there: look at AWS_ACCESS_KEY_ID or AWS_PROFILE"},
      {"InvalidAccessKeyId", "the access key is not known there: look at AWS_ACCESS_KEY_ID or AWS_PROFILE"},
      {"SIGNATURE_DOES_NOT_MATCH", "the secret does not belong to the access key: look at AWS_SECRET_ACCESS_KEY"},
      {"SignatureDoesNotMatch", "the secret does not belong to the access key: look at AWS_SECRET_ACCESS_KEY"},
      {"ExpiredToken", "the credentials expired: renew them (aws sso login, a new AWS_SESSION_TOKEN) and start again"},
      {"EXPIRED_TOKEN", "the credentials expired: renew them (aws sso login, a new AWS_SESSION_TOKEN) and start again"},
      {"NO_SUCH_BUCKET", "there is no such bucket: look at its name"},
      {"NoSuchBucket", "there is no such bucket: look at its name"},
      {"Bucket not found", "there is no such bucket: look at its name"},
      {"ocation constraint", "the bucket lies in another region: set AWS_REGION to that, or leave it unset"},
      {"PermanentRedirect", "the bucket lies in another region: set AWS_REGION to that, or leave it unset"},
      {"HTTP status 301", "the bucket lies in another region: set AWS_REGION to that, or leave it unset"},
      {"ACCESS_DENIED", "these credentials may not do that: see `aws sts get-caller-identity`, and the bucket's policy"},
      {"HTTP status 403", "these credentials may not do that: see `aws sts get-caller-identity`, and the bucket's policy"},
      {"PERMISSION_DENIED",
       "these credentials may not do that: the account needs the role Storage Object Viewer, to write Storage Object User"},
      {"OAuth2", "no credentials: gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS=FILE"},
      {"UNAUTHENTICATED", "no credentials: gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS=FILE"},
      {"does not exist", "look at its name: keys tell upper from lower case"},
      {"NOT_FOUND", "look at the names of the bucket and the object: keys tell upper from lower case"},
      {"HTTP status 404", "look at the names of the bucket and the object: keys tell upper from lower case"},
      {"NETWORK_CONNECTION", "the server does not answer: look at the network, and at AWS_ENDPOINT_URL where it is set"},
      {"curlCode", "the server does not answer: look at the network, and at AWS_ENDPOINT_URL where it is set"},
      {"UNAVAILABLE", "the server does not answer: look at the network, and at STORAGE_EMULATOR_HOST where it is set"},
      {"HTTP status 400", "the server refuses it: the credentials may have expired, or AWS_REGION is not the bucket's"},
      {"HTTP status 5", "the server fails or is too busy: start again later"},
  });
  const auto found =
      std::ranges::find_if(kCases, [&](const Case& one) { return reason.find(one.word) != std::string_view::npos; });
  return found == kCases.end() ? std::string() : std::string(found->help);
}

}  // namespace tessera::store
