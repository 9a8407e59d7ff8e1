#pragma once
// Requests to servers of the web, over HTTP(S) with libcurl, which is loaded when the first one is made: linked, it and the thirty
// libraries that it brings would be loaded whenever the program starts.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tessera::http {

struct WebOptions {
  // One of them, or neither; they go to the server alone, and into no message.
  std::string user, password, token;
  std::vector<std::string> headers = {};  // of every request: "Metadata-Flavor: Google"
  bool direct = false;                    // not by a proxy that http_proxy and the like name
  bool verify = true;                     // the server's certificate
  std::string authorities;                // a file of certificates to trust; empty: the system's
  std::string own_certificate;            // a file, for servers that ask for one
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(5), timeout = std::chrono::seconds(30);
};

struct WebReply {
  long status = 0;  // 200
  std::string body;
  // By their names in small letters; those of redirects too, where the last reply has none of that name.
  std::map<std::string, std::string> headers;
  std::string url;  // where redirects led
};

// A file of a server's.
struct Download {
  std::string url;
  int64_t from = 0;  // bytes that are here already: the rest is asked for
  // Before the first byte comes, with the place that it has in the file: `from`, or 0 where the server sends the whole file again.
  std::function<void(int64_t first)> begin;
  // What comes, in order. False ends the transfer: at `until`, where it is given, as if that was the end, else with an error.
  std::function<bool(std::string_view bytes)> take;
  int64_t until = -1;       // where what is asked for ends; -1: at the end of the file
  std::string accept = {};  // types that are asked for, as the header Accept has them; empty: any
};

// No connection to the server: it got nothing.
class NotReached : public Error {
 public:
  explicit NotReached(std::string what) : Error(Exit::kData, std::move(what)) {}
};

// For one thread. Keeps its connection open.
class WebClient {
 public:
  // Throws a data Error where libcurl is not installed.
  explicit WebClient(const WebOptions& options);
  ~WebClient();
  WebClient(const WebClient&) = delete;
  WebClient& operator=(const WebClient&) = delete;

  // A POST of `json`, or a GET where it is empty. Redirects are not followed. Throws a data Error where no reply
  // comes, which is NotReached where there was no connection.
  WebReply request(const std::string& url, const std::string& json);
  // The same without a body: of another method, "PUT" or "HEAD".
  WebReply ask(const std::string& method, const std::string& url);
  // The same with headers of its own ("Name: value"), and none of WebOptions::headers; of "GET" too. The path goes
  // out as it is, with "..".
  WebReply ask(const std::string& method, const std::string& url, const std::vector<std::string>& headers);
  // A GET that follows redirects, never from https to http; credentials go to the first server alone. The reply has a body where its
  // status is none of 200 and 206. Ends where no byte comes for half a minute, whatever WebOptions::timeout says. Throws as request().
  WebReply download(const Download& file);
  // A part of a URL's query: all but letters, digits and "-._~" as %XX.
  std::string escaped(const std::string& text) const;

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

}  // namespace tessera::http
