#include <algorithm>
#include <array>
#include <exception>
#include <new>

#include "base/system/shared_library.h"
#include "store/servers/buckets_module.h"
#include "store/servers/object_server.h"
#include "store/servers/retries.h"
#include "store/servers/s3_uploads.h"
#include "store/servers/version_watch.h"

namespace tessera::store {
namespace {

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

// What Arrow gives up at once and is over a moment later: it tries again after 500, 503 and broken connections only.
bool is_passing(std::string_view reason) {
  constexpr auto kWords = std::to_array<std::string_view>({"HTTP status 429", "HTTP status 502", "HTTP status 504",
                                                           "Throttling", "the answer is shorter", "ends too early",
                                                           "Unsupported protocol", "json input is not an object"});
  return std::ranges::any_of(kWords, [&](std::string_view word) { return reason.find(word) != std::string_view::npos; });
}

// Calls `call`, which gives false and sets the reason where it fails.
template <class Call>
void call_module(Call&& call) {
  char* reason = nullptr;
  if (call(&reason)) return;
  if (!reason) throw std::bad_alloc();
  const std::string text = reason;
  api().free_text(reason);
  throw ServerError(short_reason(text), bucket_help(text), is_passing(text));
}

ObjectInfo describe(const TesseraBucketsInfo& info) {
  switch (info.kind) {
    case TESSERA_BUCKETS_OBJECT: return {ObjectKind::kObject, info.size, info.changed};
    case TESSERA_BUCKETS_FOLDER: return {ObjectKind::kFolder, 0, 0};
    default: return {};
  }
}

using Opened = std::unique_ptr<void, void (*)(void*)>;

// `size`: what a listing said; -1: the server is asked.
Opened open_by_module(const std::string& url, int64_t size) {
  Opened object(nullptr, api().close);
  call_module([&](char** reason) {
    object.reset(api().open(url.c_str(), size, reason));
    return object != nullptr;
  });
  return object;
}

// Arrow asks S3 for parts of what it has now, whatever that was when the object was opened. What a listing told of has no tag, and
// is read whole.
class BucketObject final : public ServedObject {
 public:
  BucketObject(const std::string& url, Opened object)
      : object_(std::move(object)),
        watch_(api().tag(object_.get()), [url] { return std::string(api().tag(open_by_module(url, -1).get())); }) {}
  int64_t size() const override { return api().size(object_.get()); }
  std::string tag() const override { return api().tag(object_.get()); }
  int64_t read(int64_t offset, std::span<std::byte> out) override {
    int64_t got = 0;
    try {
      call_module([&](char** reason) {
        got = api().read(object_.get(), offset, static_cast<int64_t>(out.size()), out.data(), reason);
        return got >= 0;
      });
    } catch (const ServerError& error) {
      if (!error.passes()) watch_.failed();
      throw;
    }
    if (got < static_cast<int64_t>(out.size())) {
      watch_.failed();
    } else {
      watch_.read();
    }
    return got;
  }

 private:
  const Opened object_;
  VersionWatch watch_;
};

// What a listing calls; nothing may be thrown through the module.
struct Listing {
  const ObjectServer::Visit& visit;
  std::exception_ptr failure;
};
void add_listed(void* context, const char* name, const TesseraBucketsInfo* info) {
  auto& listing = *static_cast<Listing*>(context);
  if (listing.failure) return;
  try {
    listing.visit(name, describe(*info));
  } catch (...) {
    listing.failure = std::current_exception();
  }
}

// The same of what hands over what is written.
struct Source {
  const ObjectServer::Next& next;
  std::exception_ptr failure;
};
int64_t hand_over(void* context, void* out, int64_t capacity) {
  auto& source = *static_cast<Source*>(context);
  try {
    return source.next({static_cast<std::byte*>(out), static_cast<size_t>(capacity)});
  } catch (...) {
    source.failure = std::current_exception();
    return -1;
  }
}

// The same of what takes an access.
struct ToldAccess {
  S3Access access;
  std::exception_ptr failure;
};
void take_access(void* context, const TesseraBucketsAccess* access) {
  auto& told = *static_cast<ToldAccess*>(context);
  try {
    told.access = {access->server, access->region, access->access_key, access->secret_key, access->session_token};
  } catch (...) {
    told.failure = std::current_exception();
  }
}

class BucketServer final : public ObjectServer {
 public:
  std::unique_ptr<ServedObject> open(const std::string& url, const ObjectInfo* known) override {
    return std::make_unique<BucketObject>(url, open_by_module(url, known ? known->size : -1));
  }
  ObjectInfo info(const std::string& url) override {
    TesseraBucketsInfo found{};
    call_module([&](char** reason) { return api().info(url.c_str(), &found, reason) != 0; });
    return describe(found);
  }
  void list(const std::string& url, bool deep, const Visit& visit) override {
    Listing listing{visit, nullptr};
    call_module([&](char** reason) { return api().list(url.c_str(), deep, &listing, add_listed, reason) != 0; });
    if (listing.failure) std::rethrow_exception(listing.failure);
  }
  void write(const std::string& url, const Next& next) override {
    Source source{next, nullptr};
    try {
      call_module([&](char** reason) {
        const bool written = api().write(url.c_str(), &source, hand_over, reason) != 0;
        if (!source.failure) return written;
        if (*reason) api().free_text(*reason);
        std::rethrow_exception(source.failure);
      });
    } catch (const ServerError& error) {
      // Google Cloud Storage forgot an upload that was under way, and wants it from the beginning
      // (https://cloud.google.com/storage/docs/retry-strategy). Of a bucket that is not there it says so in words.
      const bool forgotten = std::string_view(error.what()).ends_with("Received HTTP status code: 404");
      throw ServerError(error.what(), error.help(), error.passes() || forgotten);
    }
  }
  void remove(const std::string& url) override {
    call_module([&](char** reason) { return api().remove(url.c_str(), reason) != 0; });
  }
};

}  // namespace

ObjectServer& bucket_server() {
  static BucketServer server;
  return server;
}

S3Access s3_access(const std::string& url) {
  ToldAccess told;
  ask("find credentials for", url,
      [&] { call_module([&](char** reason) { return api().access(url.c_str(), &told, take_access, reason) != 0; }); });
  if (told.failure) std::rethrow_exception(told.failure);
  return std::move(told.access);
}

std::string short_reason(std::string_view reason) {
  // google-cloud-cpp says everything a second time behind this.
  std::string text(reason.substr(0, reason.find(" error_info={")));
  for (const std::string_view words :
       {"google::cloud::Status(", "Retry policy exhausted, with a last message of ", " to authenticate the request",
        " The request was not sent, as such an access token is required to complete the request successfully.",
        " Learn more about Google Cloud authentication at https://cloud.google.com/docs/authentication.",
        " The underlying error message was:"}) {
    if (const size_t at = text.find(words); at != std::string::npos) text.erase(at, words.size());
  }
  constexpr size_t kMaxEnd = 85;
  if (text.size() > 2 * kMaxEnd) text = text.substr(0, kMaxEnd) + " … " + text.substr(text.size() - kMaxEnd);
  return text;
}

std::string bucket_help(std::string_view reason) {
  struct Case {
    std::string_view word, help;
  };
  // What Arrow, the AWS SDK and google-cloud-cpp write. The first that is found counts.
  constexpr auto kCases = std::to_array<Case>({
      {"uota", "the quota of the bucket or the account is used up: free some space there, or have it raised"},
      {"INVALID_ACCESS_KEY_ID", "the access key is not known there: look at AWS_ACCESS_KEY_ID or AWS_PROFILE"},
      {"InvalidAccessKeyId", "the access key is not known there: look at AWS_ACCESS_KEY_ID or AWS_PROFILE"},
      {"SIGNATURE_DOES_NOT_MATCH", "the secret does not belong to the access key: look at AWS_SECRET_ACCESS_KEY"},
      {"SignatureDoesNotMatch", "the secret does not belong to the access key: look at AWS_SECRET_ACCESS_KEY"},
      {"ExpiredToken", "the credentials expired: renew them (aws sso login, a new AWS_SESSION_TOKEN) and start again"},
      {"EXPIRED_TOKEN", "the credentials expired: renew them (aws sso login, a new AWS_SESSION_TOKEN) and start again"},
      {"RequestTimeTooSkewed", "the clock here or the server's is wrong by more than a quarter of an hour: set it"},
      {"AZURE_STORAGE_ACCOUNT,",
       "export AZURE_STORAGE_ACCOUNT=NAME, and AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN where needed"},
      {"AuthenticationFailed",
       "the key or the token is wrong or has expired: look at AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN"},
      {"AuthorizationPermissionMismatch", "this account may not do that: it needs the role Storage Blob Data Contributor"},
      {"AuthorizationFailure", "this account may not do that: it needs the role Storage Blob Data Contributor"},
      {"ContainerNotFound", "there is no such container: look at its name and at AZURE_STORAGE_ACCOUNT"},
      {"HTTP status 507", "the server has no space left: free some there, or have more added"},
      {"NO_SUCH_BUCKET", "there is no such bucket: look at its name"},
      {"NoSuchBucket", "there is no such bucket: look at its name"},
      {"Bucket not found", "there is no such bucket: look at its name"},
      {"ocation constraint", "the bucket lies in another region: set AWS_REGION to that, or leave it unset"},
      {"PermanentRedirect", "the bucket lies in another region: set AWS_REGION to that, or leave it unset"},
      {"HTTP status 301", "the bucket lies in another region: set AWS_REGION to that, or leave it unset"},
      {"ACCESS_DENIED",
       "these credentials may not do that, or there are none: see `aws sts get-caller-identity`, and the bucket's policy"},
      {"HTTP status 403",
       "these credentials may not do that, or there are none: see `aws sts get-caller-identity`, and the bucket's policy"},
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
