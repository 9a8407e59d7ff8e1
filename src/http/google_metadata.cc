#include "http/google_metadata.h"

#include <fstream>

#include "base/system/environment.h"
#include "http/web_client.h"

namespace tessera::http {
namespace {

constexpr const char* kServer = "GCE_METADATA_HOST";

}  // namespace

bool has_google_metadata() {
  if (!environment_variable(kServer).empty()) return true;
  std::string product;
  std::getline(std::ifstream("/sys/class/dmi/id/product_name"), product);
  return product.starts_with("Google");
}

std::string google_metadata(const std::string& path) {
  WebOptions options;
  options.headers = {"Metadata-Flavor: Google"};
  options.connect_timeout = std::chrono::seconds(1);
  options.timeout = std::chrono::seconds(5);
  try {
    WebClient client(options);
    const std::string url = "http://" + environment_variable(kServer, "169.254.169.254") + "/computeMetadata/v1/" + path;
    const WebReply reply = client.request(url, "");
    return reply.status == 200 ? reply.body : "";
  } catch (const Error&) {
    return "";
  }
}

}  // namespace tessera::http
