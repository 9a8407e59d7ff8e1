#include "monitor/mlflow/http.h"

#include <curl/curl.h>

#include <array>

#include "base/error.h"
#include "base/shared_library.h"

namespace tessera::monitor {
namespace {

constexpr const char* kLibrary = "libcurl.so.4";
constexpr size_t kMaxReply = size_t{64} << 20;

// What is used of libcurl.
struct Library {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) init;
  decltype(&curl_easy_cleanup) cleanup;
  decltype(&curl_easy_reset) reset;
  decltype(&curl_easy_setopt) set;
  decltype(&curl_easy_perform) perform;
  decltype(&curl_easy_getinfo) info;
  decltype(&curl_easy_strerror) error_text;
  decltype(&curl_easy_escape) escape;
  decltype(&curl_free) free;
  decltype(&curl_slist_append) append;
  decltype(&curl_slist_free_all) free_list;
};

Error missing(const std::string& why) {
  return data_error(
      fmt::format("MLflow's server is reached with libcurl, which cannot be loaded: {}; apt-get install libcurl4", why));
}

Library load() {
  const SharedLibrary at(kLibrary, missing);
  Library library{};
  at.find("curl_global_init", library.global_init);
  at.find("curl_easy_init", library.init);
  at.find("curl_easy_cleanup", library.cleanup);
  at.find("curl_easy_reset", library.reset);
  at.find("curl_easy_setopt", library.set);
  at.find("curl_easy_perform", library.perform);
  at.find("curl_easy_getinfo", library.info);
  at.find("curl_easy_strerror", library.error_text);
  at.find("curl_easy_escape", library.escape);
  at.find("curl_free", library.free);
  at.find("curl_slist_append", library.append);
  at.find("curl_slist_free_all", library.free_list);
  if (library.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw missing("it does not start");
  return library;
}

const Library& curl() {
  static const Library library = load();
  return library;
}

// Called with what came of a reply. Anything but the size of it ends the transfer.
size_t take(char* data, size_t size, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMaxReply) return 0;
  text.append(data, size * count);
  return size * count;
}

}  // namespace

struct Http::Session {
  explicit Session(const HttpOptions& of) : options(of), handle(curl().init()) {
    if (!handle) throw std::bad_alloc();
    add_header("Content-Type: application/json");
    // With no question first whether a long body is welcome.
    add_header("Expect:");
  }
  ~Session() {
    curl().free_list(headers);
    curl().cleanup(handle);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  template <class Value>
  void set(CURLoption option, Value value) {
    curl().set(handle, option, value);
  }
  void add_header(const char* header) {
    curl_slist* longer = curl().append(headers, header);
    if (!longer) throw std::bad_alloc();
    headers = longer;
  }
  void set_credentials() {
    if (!options.user.empty() || !options.password.empty()) {
      set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
      set(CURLOPT_USERNAME, options.user.c_str());
      set(CURLOPT_PASSWORD, options.password.c_str());
    } else if (!options.token.empty()) {
      set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
      set(CURLOPT_XOAUTH2_BEARER, options.token.c_str());
    }
    if (!options.verify) {
      set(CURLOPT_SSL_VERIFYPEER, 0L);
      set(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (!options.authorities.empty()) set(CURLOPT_CAINFO, options.authorities.c_str());
    if (!options.own_certificate.empty()) set(CURLOPT_SSLCERT, options.own_certificate.c_str());
  }

  const HttpOptions options;
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
};

Http::Http(const HttpOptions& options) : session_(std::make_unique<Session>(options)) {}
Http::~Http() = default;

HttpReply Http::request(const std::string& url, const std::string& json) {
  Session& session = *session_;
  HttpReply reply;
  std::array<char, CURL_ERROR_SIZE> reason{};
  curl().reset(session.handle);  // connections stay open
  session.set(CURLOPT_URL, url.c_str());
  session.set(CURLOPT_PROTOCOLS_STR, "http,https");
  session.set(CURLOPT_NOSIGNAL, 1L);
  session.set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(session.options.connect_timeout.count()));
  session.set(CURLOPT_TIMEOUT_MS, static_cast<long>(session.options.timeout.count()));
  session.set(CURLOPT_ERRORBUFFER, reason.data());
  session.set(CURLOPT_WRITEFUNCTION, &take);
  session.set(CURLOPT_WRITEDATA, &reply.body);
  session.set(CURLOPT_HTTPHEADER, session.headers);
  if (!json.empty()) {
    session.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
    session.set(CURLOPT_POSTFIELDS, json.data());
  }
  session.set_credentials();
  const CURLcode code = curl().perform(session.handle);
  session.set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
  if (code != CURLE_OK) {
    const std::string why = reason[0] ? reason.data() : curl().error_text(code);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY) {
      throw NotReached(why);
    }
    throw data_error(why);
  }
  curl().info(session.handle, CURLINFO_RESPONSE_CODE, &reply.status);
  return reply;
}

std::string Http::escaped(const std::string& text) const {
  char* out = curl().escape(session_->handle, text.data(), static_cast<int>(text.size()));
  if (!out) throw std::bad_alloc();
  std::string copy = out;
  curl().free(out);
  return copy;
}

}  // namespace tessera::monitor
