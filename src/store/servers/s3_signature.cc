#include "store/servers/s3_signature.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "store/encoding/bytes.h"
#include "store/encoding/digest.h"

namespace tessera::store {
namespace {

constexpr const char* kAlgorithm = "AWS4-HMAC-SHA256";

// Domains of Amazon's other clouds, by how their regions begin.
std::string_view amazon_domain(std::string_view region) {
  if (region.starts_with("cn-")) return "amazonaws.com.cn";
  if (region.starts_with("eusc-")) return "amazonaws.eu";
  return "amazonaws.com";
}

// Hosts tell no upper from lower case: that of `Data` would be the bucket `data`, maybe somebody else's.
bool has_own_host(const S3Request& request, const S3Access& access) {
  constexpr std::string_view kOfHosts = "abcdefghijklmnopqrstuvwxyz0123456789-";
  return access.server.empty() && request.bucket.find_first_not_of(kOfHosts) == std::string::npos;
}

std::string origin_of(const S3Request& request, const S3Access& access) {
  if (!access.server.empty()) return access.server.substr(0, access.server.find('/', access.server.find("://") + 3));
  const std::string host = fmt::format("s3.{}.{}", access.region, amazon_domain(access.region));
  return has_own_host(request, access) ? fmt::format("https://{}.{}", request.bucket, host) : "https://" + host;
}

// All but letters, digits and "-._~" as %XX; "/" stays where `path`.
std::string escaped(std::string_view text, bool path) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos || (path && c == '/')) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// As they are signed and sent.
std::string path_of(const S3Request& request, const S3Access& access) {
  std::string path = access.server.substr(std::min(origin_of(request, access).size(), access.server.size()));
  if (!has_own_host(request, access)) path.append("/").append(escaped(request.bucket, /*path=*/false));
  if (!request.key.empty() || path.empty()) path.append("/").append(escaped(request.key, /*path=*/true));
  return path;
}
std::string query_of(const S3Request& request) {
  std::string text;
  for (const auto& [name, value] : request.query) {
    if (!text.empty()) text += '&';
    text.append(escaped(name, false)).append("=").append(escaped(value, false));
  }
  return text;
}

std::string hash_of(std::string_view text) { return to_hex(Sha256().add(as_bytes(text)).finish()); }

// The signature of `text` by a key that is good for a day, a region and S3.
std::string signature_of(const std::string& text, const S3Access& access, std::string_view day) {
  const std::string secret = "AWS4" + access.secret_key;
  Digest key = hmac_sha256(as_bytes(secret), {day});
  for (const std::string_view part : std::initializer_list<std::string_view>{access.region, "s3", "aws4_request", text})
    key = hmac_sha256(key, {part});
  return to_hex(key);
}

}  // namespace

std::string s3_url(const S3Request& request, const S3Access& access) {
  const std::string query = query_of(request);
  const std::string url = origin_of(request, access) + path_of(request, access);
  return query.empty() ? url : fmt::format("{}?{}", url, query);
}

std::vector<std::string> s3_headers(const S3Request& request, const S3Access& access,
                                    std::chrono::system_clock::time_point now) {
  const std::string origin = origin_of(request, access), time = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
  const std::string no_body = hash_of("");
  std::vector<std::pair<std::string, std::string>> headers = {
      {"host", origin.substr(origin.find("://") + 3)}, {"x-amz-content-sha256", no_body}, {"x-amz-date", time}};
  if (!access.session_token.empty()) headers.emplace_back("x-amz-security-token", access.session_token);
  std::string names, lines;
  std::vector<std::string> sent;
  for (const auto& [name, value] : headers) {
    if (!names.empty()) names += ';';
    names += name;
    lines.append(name).append(":").append(value).append("\n");
    sent.push_back(fmt::format("{}: {}", name, value));
  }
  if (access.access_key.empty()) return {sent.front()};
  const std::string signed_text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, path_of(request, access), query_of(request), lines, names, no_body);
  const std::string day = time.substr(0, time.find('T')), scope = fmt::format("{}/{}/s3/aws4_request", day, access.region);
  const std::string signature =
      signature_of(fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, scope, hash_of(signed_text)), access, day);
  sent.push_back(fmt::format("Authorization: {} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm,
                             access.access_key, scope, names, signature));
  return sent;
}

}  // namespace tessera::store
