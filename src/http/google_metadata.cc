#include "http/google_metadata.h"

#include <chrono>
#include <fstream>
#include <thread>

#include "base/system/environment.h"
#include "http/web_client.h"

namespace tessera::http {
namespace {

constexpr const char* kServer = "GCE_METADATA_HOST";
constexpr int kTries = 3;

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
  const std::string url = "http://" + environment_variable(kServer, "169.254.169.254") + "/computeMetadata/v1/" + path;
  for (int left = kTries; left > 0; --left) {
    if (left < kTries) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    try {
      WebClient client(options);
      const WebReply reply = client.request(url, "");
      if (reply.status == 200) return reply.body;
      if (reply.status < 500) return "";
    } catch (const Error&) {
      // It may answer the next time.
    }
  }
  return "";
}

}  // namespace tessera::http
