// tessera_buckets.so: objects of S3, Google Cloud Storage and Azure, read and written through Arrow's filesystems, behind the C
// interface of store/servers/buckets_module.h. Where servers and credentials are follows the variables of their own tools: AWS_* and
// ~/.aws, GOOGLE_APPLICATION_CREDENTIALS and gcloud's, AZURE_*.

#include "store/servers/buckets_module.h"

#include <arrow/filesystem/azurefs.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/filesystem/gcsfs.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace fs = arrow::fs;

// A server that is not there or says 503 is tried again, with growing pauses, for about so long.
constexpr int kS3Attempts = 6;
constexpr double kGcsRetrySeconds = 20;
constexpr double kConnectSeconds = 5, kRequestSeconds = 20;
constexpr int64_t kWritten = 8 << 20;  // bytes handed over at once
constexpr int kIoThreads = 64;         // GCS listings and S3 clients wait in these

char* copy_text(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void check(const arrow::Status& status) {
  if (status.IsOutOfMemory()) throw std::bad_alloc();
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <class T>
T take(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string first_variable(const char* name, const char* other) {
  const std::string value = variable(name);
  return value.empty() ? variable(other) : value;
}

std::string s3_endpoint() { return first_variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"); }

// "http://host:port/" -> "http", "host:port"
std::pair<std::string, std::string> split_endpoint(std::string url) {
  std::string scheme = "https";
  if (const size_t end = url.find("://"); end != std::string::npos) {
    scheme = url.substr(0, end);
    url.erase(0, end + 3);
  }
  while (!url.empty() && url.back() == '/') url.pop_back();
  return {scheme, url};
}

// For hosts that end as C++ programs do; Tessera's own ends without taking globals down.
void finalize_s3() { (void)fs::EnsureS3Finalized(); }

std::shared_ptr<fs::FileSystem> connect_s3(const std::string& bucket) {
  check(fs::EnsureS3Initialized());
  fs::S3Options options = fs::S3Options::Defaults();
  options.connect_timeout = kConnectSeconds;
  options.request_timeout = kRequestSeconds;
  options.allow_delayed_open = true;  // what is small is written by one request
  options.retry_strategy = fs::S3RetryStrategy::GetAwsStandardRetryStrategy(kS3Attempts);
  options.region = first_variable("AWS_REGION", "AWS_DEFAULT_REGION");
  const std::string endpoint = s3_endpoint();
  if (!endpoint.empty()) {
    std::tie(options.scheme, options.endpoint_override) = split_endpoint(endpoint);
    if (options.region.empty()) options.region = "us-east-1";
  } else if (options.region.empty()) {
    options.region = take(fs::ResolveS3BucketRegion(bucket));
  }
  auto files = take(fs::S3FileSystem::Make(options));
  static const int registered = std::atexit(finalize_s3);  // behind the globals that this made, so that it runs before they go
  (void)registered;
  return files;
}

std::shared_ptr<fs::FileSystem> connect_gcs() {
  const std::string emulator = variable("STORAGE_EMULATOR_HOST");
  fs::GcsOptions options = emulator.empty() ? fs::GcsOptions::Defaults() : fs::GcsOptions::Anonymous();
  options.retry_limit_seconds = kGcsRetrySeconds;
  if (!emulator.empty()) std::tie(options.scheme, options.endpoint_override) = split_endpoint(emulator);
  return take(fs::GcsFileSystem::Make(options));
}

// The account is AZURE_STORAGE_ACCOUNT. Its key or a SAS token where one is given, else what Azure's own libraries find: a managed
// identity, `az login`.
std::shared_ptr<fs::FileSystem> connect_azure() {
  fs::AzureOptions options;
  options.account_name = first_variable("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME");
  if (options.account_name.empty()) throw std::runtime_error("AZURE_STORAGE_ACCOUNT, the account, is not set");
  if (const std::string server = variable("AZURE_STORAGE_ENDPOINT"); !server.empty()) {
    std::tie(options.blob_storage_scheme, options.blob_storage_authority) = split_endpoint(server);
    options.dfs_storage_scheme = options.blob_storage_scheme;
    options.dfs_storage_authority = options.blob_storage_authority;
  }
  const std::string key = first_variable("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY");
  const std::string sas = variable("AZURE_STORAGE_SAS_TOKEN");
  if (!key.empty()) {
    check(options.ConfigureAccountKeyCredential(key));
  } else if (!sas.empty()) {
    check(options.ConfigureSASCredential(sas));
  } else {
    check(options.ConfigureDefaultCredential());
  }
  return take(fs::AzureFileSystem::Make(options));
}

std::string server_of(const std::string& scheme) {
  if (scheme == "s3") return s3_endpoint();
  return variable(scheme == "gs" ? "STORAGE_EMULATOR_HOST" : "AZURE_STORAGE_ENDPOINT");
}

// One connection for each bucket, since they lie in regions of their own. They stay until the process ends.
std::shared_ptr<fs::FileSystem> connection(const std::string& scheme, const std::string& bucket) {
  static std::mutex mutex;
  static auto& made = *new std::map<std::string, std::shared_ptr<fs::FileSystem>>();
  const std::lock_guard lock(mutex);
  auto& place = made[server_of(scheme) + " " + scheme + "://" + bucket];
  if (place) return place;
  if (made.size() == 1) check(arrow::io::SetIOThreadPoolCapacity(kIoThreads));
  if (scheme == "s3") place = connect_s3(bucket);
  if (scheme == "gs") place = connect_gcs();
  if (scheme == "az") place = connect_azure();
  if (!place) throw std::runtime_error("not an address of a bucket");
  return place;
}

// Where a URL leads, and its path as Arrow writes it: "bucket/key".
struct Place {
  std::shared_ptr<fs::FileSystem> files;
  std::string scheme, path;

  explicit Place(std::string_view url) {
    const size_t end = url.find("://");
    if (end == std::string_view::npos) throw std::runtime_error("not an address of a bucket");
    path = url.substr(end + 3);
    while (!path.empty() && path.back() == '/') path.pop_back();
    const std::string bucket = path.substr(0, path.find('/'));
    if (bucket.empty()) throw std::runtime_error("the address names no bucket");
    scheme = url.substr(0, end);
    files = connection(scheme, bucket);
  }
};

// `file` is null where only the size is known so far, from a listing.
struct Object {
  Object(std::string_view url, int64_t bytes) : place(url), size(bytes) {}

  const Place place;
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  int64_t size;
  std::string tag;
  std::once_flag opened;
};

int64_t changed_of(const fs::FileInfo& info) {
  return info.mtime() == fs::kNoTime ? 0 : std::chrono::nanoseconds(info.mtime().time_since_epoch()).count();
}

TesseraBucketsInfo describe(const fs::FileInfo& info) {
  if (info.IsFile()) return {TESSERA_BUCKETS_OBJECT, info.size(), changed_of(info)};
  return {info.IsDirectory() ? TESSERA_BUCKETS_FOLDER : TESSERA_BUCKETS_NOTHING, 0, 0};
}

// What Arrow takes in place of asking the server.
fs::FileInfo listed(const Object& object) {
  fs::FileInfo info(object.place.path, fs::FileType::File);
  info.set_size(object.size);
  return info;
}

// What run() gives; `failed` where it throws, with the reason in `*error`.
template <class Run, class Value>
Value guarded(char** error, Value failed, Run&& run) {
  *error = nullptr;
  try {
    return run();
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& thrown) {
    *error = copy_text(thrown.what());
  }
  return failed;
}

void* open_object(const char* url, int64_t size, char** error) {
  return guarded(error, static_cast<void*>(nullptr), [&]() -> void* {
    auto object = std::make_unique<Object>(url, size);
    if (size >= 0) return object.release();
    object->file = take(object->place.files->OpenInputFile(object->place.path));
    object->size = take(object->file->GetSize());
    const auto metadata = take(object->file->ReadMetadata());
    for (const char* key : {"generation", "ETag", "etag"}) {
      if (!metadata || !object->tag.empty()) break;
      if (auto value = metadata->Get(key); value.ok()) object->tag = *value;
    }
    return object.release();
  });
}

void close_object(void* object) { delete static_cast<Object*>(object); }
int64_t size_of(const void* object) { return static_cast<const Object*>(object)->size; }
const char* tag_of(const void* object) { return static_cast<const Object*>(object)->tag.c_str(); }

// A whole object of Google Cloud Storage that a listing told of, by the one request that Arrow needs for a stream; a file to read
// parts of takes it three.
int64_t read_stream(const Object& object, void* out) {
  const auto stream = take(object.place.files->OpenInputStream(listed(object)));
  int64_t got = 0;
  while (got < object.size) {
    const int64_t more = take(stream->Read(object.size - got, static_cast<std::byte*>(out) + got));
    if (more == 0) break;
    got += more;
  }
  return got;
}

// Arrow's S3 says that it read what was asked for even where the answer was shorter, and leaves the rest of `out` as it was. So
// the last bytes are marked before. Bytes that equal the mark by chance do not equal its complement the second time.
int64_t read_object(void* object, int64_t offset, int64_t length, void* out, char** error) {
  constexpr int64_t kMarked = 16;
  return guarded(error, int64_t{-1}, [&] {
    auto& of = *static_cast<Object*>(object);
    if (!of.file && offset == 0 && length == of.size && of.place.scheme == "gs") return read_stream(of, out);
    std::call_once(of.opened, [&] {
      if (!of.file) of.file = take(of.place.files->OpenInputFile(listed(of)));
    });
    const int64_t marked = std::min(length, kMarked);
    std::byte* const end = static_cast<std::byte*>(out) + length;
    int64_t got = 0;
    for (const std::byte mark : {std::byte{0xa5}, std::byte{0x5a}}) {
      std::fill(end - marked, end, mark);
      got = take(of.file->ReadAt(offset, length, out));
      if (got < length || std::any_of(end - marked, end, [&](std::byte byte) { return byte != mark; })) return got;
    }
    throw std::runtime_error("the answer is shorter than what was asked for");
  });
}

int info_of(const char* url, TesseraBucketsInfo* info, char** error) {
  return guarded(error, 0, [&] {
    const Place place(url);
    *info = describe(take(place.files->GetFileInfo(place.path)));
    return 1;
  });
}

int list_folder(const char* url, int deep, void* context, TesseraBucketsVisit visit, char** error) {
  return guarded(error, 0, [&] {
    const Place place(url);
    fs::FileSelector selector;
    selector.base_dir = place.path;
    selector.recursive = deep != 0;
    for (const fs::FileInfo& found : take(place.files->GetFileInfo(selector))) {
      const TesseraBucketsInfo info = describe(found);
      visit(context, found.path().c_str() + place.path.size() + 1, &info);
    }
    return 1;
  });
}

int write_object(const char* url, void* context, TesseraBucketsNext next, char** error) {
  return guarded(error, 0, [&] {
    const Place place(url);
    const bool in_s3 = place.scheme == "s3";
    const auto stream = take(place.files->OpenOutputStream(place.path));
    std::vector<std::byte> part(static_cast<size_t>(kWritten));
    try {
      for (int64_t got = 0; (got = next(context, part.data(), kWritten)) != 0;) {
        if (got < 0) throw std::runtime_error("given up");
        check(stream->Write(part.data(), got));
      }
      // Where a part failed, Close() of S3 forgets the upload, and Abort() would do nothing.
      if (in_s3) check(stream->CloseAsync().status());
    } catch (...) {
      if (in_s3) (void)stream->Flush();  // waits for parts under way, which would come after the end and stay
      (void)stream->Abort();
      throw;
    }
    check(stream->Close());
    return 1;
  });
}

int remove_object(const char* url, char** error) {
  return guarded(error, 0, [&] {
    const Place place(url);
    const fs::FileInfo there = take(place.files->GetFileInfo(place.path));
    if (there.IsFile()) check(place.files->DeleteFile(place.path));
    if (there.IsDirectory()) check(place.files->DeleteDir(place.path));
    return 1;
  });
}

// For requests that Arrow has no call for.
int tell_access(const char* url, void* context, TesseraBucketsTell tell, char** error) {
  return guarded(error, 0, [&] {
    const Place place(url);
    const auto* s3 = dynamic_cast<const fs::S3FileSystem*>(place.files.get());
    if (!s3) throw std::runtime_error("not in S3");
    const fs::S3Options options = s3->options();
    const std::string server = options.endpoint_override.empty() ? "" : options.scheme + "://" + options.endpoint_override;
    const std::string region = s3->region(), key = options.GetAccessKey(), secret = options.GetSecretKey(),
                      token = options.GetSessionToken();
    const TesseraBucketsAccess access{server.c_str(), region.c_str(), key.c_str(), secret.c_str(), token.c_str()};
    tell(context, &access);
    return 1;
  });
}

void free_text(char* text) { std::free(text); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* tessera_buckets_api(void) {
  static const TesseraBucketsApi api = {
      kTesseraBucketsVersion, open_object,   close_object, size_of,  tag_of, read_object, info_of, list_folder,
      write_object,           remove_object, tell_access,  free_text};
  return &api;
}
