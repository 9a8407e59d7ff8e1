#include "store/servers/egress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/system/environment.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "http/google_metadata.h"
#include "http/web_client.h"

namespace tessera::store {
namespace {

constexpr const char* kOwnRegion = "TESSERA_MACHINE_REGION";
constexpr const char* kAmazonServer = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

bool allowed = false;

std::string firmware(const char* name) {
  std::string text;
  std::getline(std::ifstream(std::string("/sys/class/dmi/id/") + name), text);
  return text;
}

http::WebOptions quick(std::vector<std::string> headers) {
  http::WebOptions options;
  options.headers = std::move(headers);
  options.connect_timeout = std::chrono::seconds(1);
  options.timeout = std::chrono::seconds(5);
  return options;
}

// The body of a reply with status 200; empty where there is none.
std::string answer(const std::string& url, std::vector<std::string> headers, const char* method = "") {
  try {
    http::WebClient client(quick(std::move(headers)));
    const http::WebReply reply = *method ? client.ask(method, url) : client.request(url, "");
    return reply.status == 200 ? reply.body : "";
  } catch (const Error&) {
    return "";
  }
}

// "projects/123/zones/us-central1-b"
std::optional<CloudRegion> google_region() {
  const std::string zone = http::google_metadata("instance/zone");
  const size_t begin = zone.rfind('/') + 1, end = zone.rfind('-');
  if (zone.find("/zones/") == std::string::npos || end == std::string::npos || end <= begin) return std::nullopt;
  return CloudRegion{"gcp", zone.substr(begin, end - begin)};
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html, version 2
std::optional<CloudRegion> amazon_region() {
  if (lower(environment_variable("AWS_EC2_METADATA_DISABLED")) == "true") return std::nullopt;
  std::string server = environment_variable(kAmazonServer, "http://169.254.169.254");
  while (server.ends_with('/')) server.pop_back();
  const std::string token = answer(server + "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds: 60"}, "PUT");
  const std::string region = answer(server + "/latest/meta-data/placement/region", {"X-aws-ec2-metadata-token: " + token});
  return region.empty() ? std::nullopt : std::optional(CloudRegion{"aws", std::string(trim(region))});
}

std::optional<CloudRegion> find_machine_region() {
  if (const std::string own = environment_variable(kOwnRegion); !own.empty()) {
    auto region = parse_region(own);
    if (!region)
      throw usage_error(fmt::format("`{}` is \"{}\"", kOwnRegion, one_line(own)), {}, "gcp:us-central1, or aws:eu-west-1");
    return region;
  }
  if (http::has_google_metadata()) return google_region();
  const bool amazon = !environment_variable(kAmazonServer).empty() || firmware("sys_vendor").starts_with("Amazon");
  return amazon ? amazon_region() : std::nullopt;
}

std::string bucket_of(const std::string& url) {
  const size_t begin = url.find("://") + 3;
  return url.substr(begin, url.find('/', begin) - begin);
}

// A server of the user's own counts where he says where this machine is.
std::string server(const std::string& own, const std::string& clouds) {
  if (own.empty()) return clouds;
  if (environment_variable(kOwnRegion).empty()) return "";
  return own.find("://") == std::string::npos ? "http://" + own : own;
}

// https://cloud.google.com/storage/docs/json_api/v1/buckets/get. The machine's account where there is one; public buckets tell
// everybody.
std::optional<CloudRegion> google_bucket(const std::string& bucket) {
  const std::string at = server(environment_variable("STORAGE_EMULATOR_HOST"), "https://storage.googleapis.com");
  if (at.empty()) return std::nullopt;
  std::vector<std::string> headers;
  if (environment_variable("STORAGE_EMULATOR_HOST").empty()) {
    const JsonResult token = read_json(http::google_metadata("instance/service-accounts/default/token"));
    if (token.value.is_object() && token.value.contains("access_token") && token.value["access_token"].is_string())
      headers.push_back("Authorization: Bearer " + token.value["access_token"].get<std::string>());
  }
  const JsonResult read = read_json(answer(fmt::format("{}/storage/v1/b/{}", at, bucket), headers));
  if (!read.value.is_object() || !read.value.contains("location") || !read.value["location"].is_string()) return std::nullopt;
  return CloudRegion{"gcp", lower(read.value["location"].get<std::string>())};
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html: the header comes whatever the status, without credentials.
std::optional<CloudRegion> amazon_bucket(const std::string& bucket) {
  const std::string own = environment_variable("AWS_ENDPOINT_URL_S3", environment_variable("AWS_ENDPOINT_URL"));
  const std::string at = server(own, "https://s3.amazonaws.com");
  if (at.empty()) return std::nullopt;
  try {
    http::WebClient client(quick({}));
    const http::WebReply reply = client.ask("HEAD", fmt::format("{}/{}", at, bucket));
    const auto region = reply.headers.find("x-amz-bucket-region");
    return region == reply.headers.end() ? std::nullopt : std::optional(CloudRegion{"aws", region->second});
  } catch (const Error&) {
    return std::nullopt;
  }
}

// "na", "eu", … of a region or of what lies in several; empty where it is not known.
std::string continent(const CloudRegion& place) {
  constexpr auto kBegins = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"us", "na"},
      {"northamerica", "na"},
      {"nam", "na"},
      {"ca-", "na"},
      {"mx-", "na"},
      {"southamerica", "sa"},
      {"sa-", "sa"},
      {"europe", "eu"},
      {"eu", "eu"},
      {"asia", "as"},
      {"ap-", "as"},
      {"australia", "au"},
      {"me-", "me"},
      {"il-", "me"},
      {"af", "af"},
  });
  for (const auto& [begin, name] : kBegins) {
    if (place.region.starts_with(begin)) return std::string(name);
  }
  return "";
}

// Such as "us" and "nam4", which have no number of a region behind a dash.
bool lies_in_several(const CloudRegion& bucket) {
  return bucket.provider == "gcp" && bucket.region.find('-') == std::string::npos;
}

}  // namespace

std::optional<CloudRegion> parse_region(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) return std::nullopt;
  const std::string_view provider = text.substr(0, colon);
  if (provider != "gcp" && provider != "aws") return std::nullopt;
  return CloudRegion{std::string(provider), lower(std::string(text.substr(colon + 1)))};
}

const std::optional<CloudRegion>& machine_region() {
  static const std::optional<CloudRegion> found = find_machine_region();
  return found;
}

std::optional<CloudRegion> bucket_region(const std::string& url) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<CloudRegion>> known;
  const bool google = url.starts_with("gs://");
  if (!google && !url.starts_with("s3://")) return std::nullopt;
  const std::string bucket = bucket_of(url);
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace(url.substr(0, 5) + bucket);
  if (is_new) place->second = google ? google_bucket(bucket) : amazon_bucket(bucket);
  return place->second;
}

bool spans(const CloudRegion& bucket, const CloudRegion& machine) {
  return bucket.provider == machine.provider && lies_in_several(bucket) && continent(bucket) == continent(machine);
}

// https://cloud.google.com/storage/pricing and https://aws.amazon.com/s3/pricing, "data transfer", in 2025.
double egress_price(const CloudRegion& bucket, const CloudRegion& machine) {
  constexpr double kOutOfGoogle = 0.12, kOutOfAmazon = 0.09, kNear = 0.02, kFar = 0.08;
  if (bucket == machine) return 0;
  if (bucket.provider != machine.provider) return bucket.provider == "gcp" ? kOutOfGoogle : kOutOfAmazon;
  const std::string from = continent(bucket);
  return from == continent(machine) && (from == "na" || from == "eu") ? kNear : kFar;
}

std::optional<Egress> egress_of(const std::string& url) {
  const auto& machine = machine_region();
  if (!machine) return std::nullopt;
  const auto bucket = bucket_region(url);
  if (!bucket || *bucket == *machine) return std::nullopt;
  return Egress{*bucket, *machine, egress_price(*bucket, *machine)};
}

void allow_egress() { allowed = true; }

void expect_egress_allowed(const std::string& url, int64_t bytes, const std::string& where) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const auto egress = egress_of(url);
  if (!egress) return;
  const std::string bucket = url.substr(0, 5) + bucket_of(url);
  const std::string what = fmt::format("`{}` lies in {} and this machine in {}: reading {} once costs about ${:.2f}",
                                       one_line(bucket), egress->bucket.text(), egress->machine.text(),
                                       human_bytes(static_cast<double>(bytes)), egress->dollars(bytes));
  if (!allowed && !spans(egress->bucket, egress->machine)) {
    throw usage_error(what, where,
                      fmt::format("run where the bucket is, copy the data to a bucket of {}, or give --allow-egress",
                                  egress->machine.text()));
  }
  const std::lock_guard lock(mutex);
  if (told.insert(bucket).second) log_note(what);
}

}  // namespace tessera::store
