#include "http/web_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>

#include "base/error.h"
#include "base/system/shared_library.h"
#include "base/text/text.h"

namespace tessera::http {
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
  return data_error(fmt::format("servers are reached with libcurl, which cannot be loaded: {}; apt-get install libcurl4", why));
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

// False where a reply gets too long.
bool append(std::string& body, std::string_view bytes) {
  if (body.size() + bytes.size() > kMaxReply) return false;
  body += bytes;
  return true;
}

// Called with what came of a reply. Anything but the size of it ends the transfer.
size_t take(char* data, size_t size, size_t count, void* body) {
  return append(*static_cast<std::string*>(body), {data, size * count}) ? size * count : 0;
}

// Called with each line of a reply's head.
size_t take_header(char* data, size_t size, size_t count, void* headers) {
  const std::string_view line(data, size * count);
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    (*static_cast<std::map<std::string, std::string>*>(headers))[name] = trim(line.substr(colon + 1));
  }
  return size * count;
}

}  // namespace

struct WebClient::Session {
  struct HeadersCloser {
    void operator()(curl_slist* list) const { curl().free_list(list); }
  };
  using Headers = std::unique_ptr<curl_slist, HeadersCloser>;

  explicit Session(const WebOptions& of) : options(of), handle(curl().init()) {
    if (!handle) throw std::bad_alloc();
    add(headers, "Content-Type: application/json");
    // With no question first whether a long body is welcome.
    add(headers, "Expect:");
    for (const std::string& header : options.headers) add(headers, header.c_str());
  }
  ~Session() { curl().cleanup(handle); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  template <class Value>
  void set(CURLoption option, Value value) {
    curl().set(handle, option, value);
  }
  static void add(Headers& list, const char* header) {
    curl_slist* longer = curl().append(list.get(), header);
    if (!longer) throw std::bad_alloc();
    static_cast<void>(list.release());
    list.reset(longer);
  }
  struct Incoming;
  void prepare(const std::string& url, WebReply& reply);
  void prepare_for_body(const std::string& url, WebReply& reply);
  void set_method(const std::string& method);
  void perform(WebReply& reply);
  long status() const;
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

  const WebOptions options;
  CURL* handle = nullptr;
  Headers headers;
};

// What both kinds of requests have in common.
void WebClient::Session::prepare(const std::string& url, WebReply& reply) {
  curl().reset(handle);  // connections stay open
  set(CURLOPT_HEADERFUNCTION, &take_header);
  set(CURLOPT_HEADERDATA, &reply.headers);
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  if (options.direct) set(CURLOPT_PROXY, "");
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  set_credentials();
}

// The same for a reply that is kept whole.
void WebClient::Session::prepare_for_body(const std::string& url, WebReply& reply) {
  prepare(url, reply);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout.count()));
  set(CURLOPT_WRITEFUNCTION, &take);
  set(CURLOPT_WRITEDATA, &reply.body);
  set(CURLOPT_HTTPHEADER, headers.get());
}

// Of a request without a body.
void WebClient::Session::set_method(const std::string& method) {
  if (method == "HEAD") return set(CURLOPT_NOBODY, 1L);
  if (method == "GET") return;
  set(CURLOPT_POSTFIELDSIZE, 0L);
  set(CURLOPT_POSTFIELDS, "");
  set(CURLOPT_CUSTOMREQUEST, method.c_str());
}

void WebClient::Session::perform(WebReply& reply) {
  std::array<char, CURL_ERROR_SIZE> reason{};
  set(CURLOPT_ERRORBUFFER, reason.data());
  const CURLcode code = curl().perform(handle);
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
  if (code != CURLE_OK) {
    const std::string why = reason[0] ? reason.data() : curl().error_text(code);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY) {
      throw NotReached(why);
    }
    throw data_error(why);
  }
  reply.status = status();
  const char* url = nullptr;
  curl().info(handle, CURLINFO_EFFECTIVE_URL, &url);
  reply.url = url ? url : "";
}

long WebClient::Session::status() const {
  long status = 0;
  curl().info(handle, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

WebClient::WebClient(const WebOptions& options) : session_(std::make_unique<Session>(options)) {}
WebClient::~WebClient() = default;

WebReply WebClient::request(const std::string& url, const std::string& json) {
  Session& session = *session_;
  WebReply reply;
  session.prepare_for_body(url, reply);
  if (!json.empty()) {
    session.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
    session.set(CURLOPT_POSTFIELDS, json.data());
  }
  session.perform(reply);
  return reply;
}

WebReply WebClient::ask(const std::string& method, const std::string& url) {
  Session& session = *session_;
  WebReply reply;
  session.prepare_for_body(url, reply);
  session.set_method(method);
  session.perform(reply);
  return reply;
}

WebReply WebClient::ask(const std::string& method, const std::string& url, const std::vector<std::string>& headers) {
  Session& session = *session_;
  WebReply reply;
  session.prepare_for_body(url, reply);
  Session::Headers list;
  Session::add(list, "Content-Type:");  // else libcurl adds that of a form
  for (const std::string& header : headers) Session::add(list, header.c_str());
  session.set(CURLOPT_HTTPHEADER, list.get());
  session.set(CURLOPT_PATH_AS_IS, 1L);
  session.set_method(method);
  session.perform(reply);
  return reply;
}

// One transfer of a file, as its bytes come.
struct WebClient::Session::Incoming {
  const Session& session;
  const Download& file;
  WebReply reply;
  bool begun = false;
  bool ended = false;          // by take(), where `file.until` is given
  std::exception_ptr failure;  // of begin() and take(): libcurl's frames lie between

  bool accept(std::string_view bytes) {
    const long status = session.status();
    if (status != 200 && status != 206) return append(reply.body, bytes);
    try {
      if (!begun) file.begin(status == 206 ? file.from : 0);
      begun = true;
      const bool more = file.take(bytes);
      ended = !more && file.until >= 0;
      return more;
    } catch (...) {
      failure = std::current_exception();
      return false;
    }
  }
  static size_t call(char* bytes, size_t size, size_t count, void* incoming) {
    return static_cast<Incoming*>(incoming)->accept({bytes, size * count}) ? size * count : 0;
  }
};

WebReply WebClient::download(const Download& file) {
  Session& session = *session_;
  Session::Incoming incoming{session, file, {}, false, false, nullptr};
  session.prepare(file.url, incoming.reply);
  session.set(CURLOPT_FOLLOWLOCATION, 1L);
  session.set(CURLOPT_MAXREDIRS, 8L);
  session.set(CURLOPT_REDIR_PROTOCOLS_STR, file.url.starts_with("https:") ? "https" : "http,https");
  session.set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  session.set(CURLOPT_LOW_SPEED_TIME, 30L);
  session.set(CURLOPT_WRITEFUNCTION, &Session::Incoming::call);
  session.set(CURLOPT_WRITEDATA, &incoming);
  const std::string range = file.until < 0 ? fmt::format("{}-", file.from) : fmt::format("{}-{}", file.from, file.until - 1);
  if (file.from > 0 || file.until >= 0) session.set(CURLOPT_RANGE, range.c_str());
  Session::Headers headers;
  if (!file.accept.empty()) {
    Session::add(headers, ("Accept: " + file.accept).c_str());
    session.set(CURLOPT_HTTPHEADER, headers.get());
  }
  try {
    session.perform(incoming.reply);
  } catch (const Error&) {
    if (incoming.ended) {
      incoming.reply.status = session.status();
      return incoming.reply;
    }
    if (incoming.failure) std::rethrow_exception(incoming.failure);
    throw;
  }
  return incoming.reply;
}

std::string WebClient::escaped(const std::string& text) const {
  char* out = curl().escape(session_->handle, text.data(), static_cast<int>(text.size()));
  if (!out) throw std::bad_alloc();
  std::string copy = out;
  curl().free(out);
  return copy;
}

}  // namespace tessera::http
