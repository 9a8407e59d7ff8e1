#include "store/servers/s3_uploads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/system/environment.h"
#include "store/servers/object_server.h"
#include "store/servers/retries.h"

namespace tessera::store {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr const char* kNoUpload = "NoSuchUpload";

bool passes(long status, const std::string& code) {
  constexpr std::array<long, 6> kPassing = {408, 429, 500, 502, 503, 504};
  return std::ranges::find(kPassing, status) != kPassing.end() || code == "Throttling";
}

[[noreturn]] void refuse_request(long status, const S3Refusal& refusal) {
  std::string reason = fmt::format("HTTP status {}", status);
  if (!refusal.code.empty()) reason.append(", ").append(refusal.code);
  if (!refusal.message.empty()) reason.append(": ").append(refusal.message);
  const bool denied = refusal.code == "AccessDenied" || (status == 403 && refusal.code.empty());
  throw ServerError(
      short_reason(reason),
      denied ? "the credentials need s3:ListBucketMultipartUploads and s3:AbortMultipartUpload" : bucket_help(reason),
      passes(status, refusal.code));
}

// As Arrow's S3 reaches servers: by no proxy, and with the variable of OpenSSL, which libcurl does not look at.
http::WebOptions as_arrow() {
  http::WebOptions options;
  options.direct = true;
  options.authorities = environment_variable("SSL_CERT_FILE");
  options.timeout = std::chrono::seconds(10);  // a start waits for each of the tries
  return options;
}

}  // namespace

S3Uploads::S3Uploads(const std::string& url) : S3Uploads(url, s3_access(url)) {}

S3Uploads::S3Uploads(const std::string& url, S3Access access) : url_(url), access_(std::move(access)), client_(as_arrow()) {
  TESSERA_CHECK(url.starts_with(kScheme), "`{}` is not in S3", url);
  std::string path = url.substr(kScheme.size());
  while (path.ends_with('/')) path.pop_back();
  const size_t slash = path.find('/');
  bucket_ = path.substr(0, slash);
  if (slash != std::string::npos) prefix_ = path.substr(slash + 1) + "/";
}

std::vector<S3Upload> S3Uploads::list() {
  constexpr int kMaxPages = 100;  // of a thousand uploads
  std::vector<S3Upload> found;
  S3UploadsPage page{.more = true};
  for (int i = 0; page.more && i < kMaxPages; ++i) {
    S3Request request{"GET", bucket_, "", {{"uploads", ""}, {"prefix", prefix_}}};
    if (!page.next_key.empty()) request.query["key-marker"] = page.next_key;
    if (!page.next_id.empty()) request.query["upload-id-marker"] = page.next_id;
    const std::string key = page.next_key, id = page.next_id;
    ask("list unfinished uploads below", url_, [&] { page = parse_s3_uploads(ask_server(request)); });
    if (page.more && page.next_key == key && page.next_id == id) break;  // a server that knows only its first page
    for (S3Upload& upload : page.uploads) {
      if (!upload.key.starts_with(prefix_)) continue;
      upload.key.erase(0, prefix_.size());
      found.push_back(std::move(upload));
    }
  }
  return found;
}

void S3Uploads::abort(const S3Upload& upload) {
  const S3Request request{"DELETE", bucket_, prefix_ + upload.key, {{"uploadId", upload.id}}};
  ask("remove the unfinished upload to", fmt::format("{}{}/{}{}", kScheme, bucket_, prefix_, upload.key),
      [&] { ask_server(request); });
}

// The answer's text.
std::string S3Uploads::ask_server(const S3Request& request) {
  http::WebReply reply;
  try {
    reply =
        client_.ask(request.method, s3_url(request, access_), s3_headers(request, access_, std::chrono::system_clock::now()));
  } catch (const Error& error) {  // the network, which may be back in a moment
    throw ServerError(error.message(), "the server does not answer: look at the network", true);
  }
  if (reply.status == 200 || reply.status == 204) return std::move(reply.body);
  const S3Refusal refusal = parse_s3_refusal(reply.body);
  if (refusal.code != kNoUpload) refuse_request(reply.status, refusal);
  return "";
}

}  // namespace tessera::store
