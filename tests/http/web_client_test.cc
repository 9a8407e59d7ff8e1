// Requests of ours, byte by byte. What they are for is tested where they are used.
#include "http/web_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "http/server.h"
#include "support/one_reply.h"

namespace tessera::http {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OneReply;
using testing::reply_of;

TEST(WebClient, SendsBodyAndCredentials) {
  ::setenv("no_proxy", "127.0.0.1", 1);
  WebOptions token;
  token.token = "the-token";
  OneReply first(reply_of("200 OK", "{\"a\": 1}"));
  const WebReply reply = WebClient(token).request(first.url() + "/x?y=1", "{\"b\": 2}");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "{\"a\": 1}");
  const std::string request = first.request();
  EXPECT_THAT(request, HasSubstr("POST /x?y=1 HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Authorization: Bearer the-token\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\n\r\n{\"b\": 2}"));

  WebOptions user;
  user.user = "me", user.password = "secret", user.token = "the-token";
  OneReply second(reply_of("200 OK", "{}"));
  WebClient(user).request(second.url(), "");
  const std::string get = second.request();
  EXPECT_THAT(get, HasSubstr("GET / HTTP/1.1\r\n"));
  EXPECT_THAT(get, HasSubstr("Authorization: Basic bWU6c2VjcmV0\r\n"));
}

// As signed requests need it: no header is there that was not asked for, and the path is that which was signed.
TEST(WebClient, RequestsMayHaveHeadersOfTheirOwn) {
  ::setenv("no_proxy", "127.0.0.1", 1);
  WebOptions options;
  options.headers = {"X-Usual: 1"};
  for (const std::string method : {"GET", "DELETE", "HEAD"}) {
    OneReply server(reply_of("200 OK", method == "HEAD" ? "" : "{}"));
    EXPECT_EQ(WebClient(options).ask(method, server.url() + "/x/../y/./z", {"host: other", "x-own: 2"}).status, 200);
    const std::string request = server.request();
    EXPECT_THAT(request, AllOf(HasSubstr(method + " /x/../y/./z HTTP/1.1\r\n"), HasSubstr("Host: other\r\n"),
                               HasSubstr("x-own: 2\r\n"), Not(HasSubstr("Content-Type")), Not(HasSubstr("X-Usual"))));
  }
}

TEST(WebClient, ProxiesAreAskedUnlessTheServerIsToBeAskedItself) {
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  for (const char* name : {"no_proxy", "NO_PROXY"}) ::unsetenv(name);
  OneReply server(reply_of("200 OK", "{}"));
  EXPECT_THROW(WebClient({}).request(server.url(), ""), NotReached);
  WebOptions options;
  options.direct = true;
  EXPECT_EQ(WebClient(options).request(server.url(), "").status, 200);
  ::unsetenv("http_proxy");
}

TEST(WebClient, RedirectsAreNotFollowed) {
  OneReply server("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(WebClient({}).request(server.url(), "").status, 302);
}

// A server that has one file.
class Files {
 public:
  explicit Files(std::string body)
      : body_(std::move(body)), server_({}, [this](const Request& request) { return answer(request); }) {
    ::setenv("no_proxy", "127.0.0.1", 1);
  }
  std::string url(const std::string& path) const { return fmt::format("http://127.0.0.1:{}{}", server_.port(), path); }

 private:
  Response answer(const Request& request) const {
    if (request.path == "/moved") return {.status = 302, .headers = {{"Location", "/file"}}};
    if (request.path == "/round") return {.status = 302, .headers = {{"Location", "/round"}}};
    if (request.path != "/file" && request.path != "/whole") return {.status = 404, .body = "no such file"};
    const auto range = request.header("range");
    if (!range || request.path == "/whole") return {.body = body_};
    const size_t from = std::stoul(range->substr(range->find('=') + 1));
    return {.status = 206, .body = body_.substr(from)};
  }
  const std::string body_;
  Server server_;
};

struct Got {
  WebReply reply;
  int64_t first = -1;
  std::string bytes;
};

Got fetch(const std::string& url, int64_t from = 0) {
  Got got;
  got.reply = WebClient({}).download({.url = url,
                                      .from = from,
                                      .begin = [&](int64_t first) { got.first = first; },
                                      .take =
                                          [&](std::string_view bytes) {
                                            got.bytes += bytes;
                                            return true;
                                          }});
  return got;
}

TEST(WebClient, FetchesWhatIsMissingOfAFile) {
  const Files files("0123456789");
  EXPECT_EQ(fetch(files.url("/file")).bytes, "0123456789");
  const Got rest = fetch(files.url("/moved"), 4);
  EXPECT_EQ(rest.reply.status, 206);
  EXPECT_EQ(rest.first, 4);
  EXPECT_EQ(rest.bytes, "456789");
  const Got again = fetch(files.url("/whole"), 4);  // of servers that know no ranges
  EXPECT_EQ(again.first, 0);
  EXPECT_EQ(again.bytes, "0123456789");
}

TEST(WebClient, AFileThatIsNotThereHasAReply) {
  const Files files("");
  const Got got = fetch(files.url("/other"));
  EXPECT_EQ(got.reply.status, 404);
  EXPECT_EQ(got.reply.body, "no such file");
  EXPECT_EQ(got.first, -1);
  EXPECT_THROW(fetch(files.url("/round")), Error);
}

TEST(WebClient, WhatTakesBytesMayFail) {
  const Files files("0123456789");
  WebClient client({});
  const auto nothing = [](int64_t) {};
  EXPECT_THROW(client.download({.url = files.url("/file"),
                                .begin = nothing,
                                .take = [](std::string_view) -> bool { throw std::out_of_range("x"); }}),
               std::out_of_range);
  EXPECT_THROW(client.download({.url = files.url("/file"), .begin = nothing, .take = [](std::string_view) { return false; }}),
               Error);
}

TEST(WebClient, WhereNobodyListensIsTold) { EXPECT_THROW(fetch("http://127.0.0.1:1/file"), NotReached); }

}  // namespace
}  // namespace tessera::http
