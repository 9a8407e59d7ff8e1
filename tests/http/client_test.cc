#include "http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "http/server.h"

namespace tessera::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Endpoint at(const Server& server) { return {"127.0.0.1", std::to_string(server.port())}; }

std::string endpoint(std::string_view text) {
  const auto found = parse_endpoint(text, "80");
  return found ? found->text() : "none";
}

TEST(Client, ReadsEndpoints) {
  EXPECT_EQ(endpoint("http://host:2379"), "host:2379");
  EXPECT_EQ(endpoint("http://host/"), "host:80");
  EXPECT_EQ(endpoint("10.0.0.1"), "10.0.0.1:80");
  EXPECT_EQ(endpoint("[fe80::1]:99"), "[fe80::1]:99");
  EXPECT_EQ(endpoint("[::1]"), "[::1]:80");
  for (const char* text :
       {"", ":80", "host:", "host:port", "host:123456", "https://host", "host/path", "a b", "[::1", "[::1]80"})
    EXPECT_EQ(endpoint(text), "none") << text;
}

TEST(Client, PostsAndReadsTheAnswer) {
  const Server server({}, [](const Request& request) {
    return Response{201, "application/json", request.method + request.path + request.body};
  });
  const Answer answer = post_json(at(server), "/a/b", R"({"x":1})", seconds(20));
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.body, R"(POST/a/b{"x":1})");
}

TEST(Client, GivesUpOnAServerThatDoesNotAnswer) {
  const Server server({}, [](const Request&) {
    std::this_thread::sleep_for(seconds(1));
    return Response{};
  });
  try {
    post_json(at(server), "/", "", milliseconds(100));
    FAIL();
  } catch (const ConnectionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did not answer"));
  }
}

TEST(Client, SaysThatNobodyIsThere) {
  EXPECT_THROW(post_json({"127.0.0.1", "1"}, "/", "", seconds(5)), ConnectionError);
  EXPECT_THROW(post_json({"no-such-host.invalid", "1"}, "/", "", seconds(5)), ConnectionError);
}

Response events(const Request& request) {
  Response response;
  response.events = request.path == "/events";
  response.status = response.events ? 200 : 404;
  response.body = "first\nsecond\n";
  return response;
}

TEST(LineStream, GivesLinesAsTheyCome) {
  Server server({}, events);
  LineStream stream(at(server), "/events", "", seconds(20));
  EXPECT_EQ(stream.next(), "first");
  EXPECT_EQ(stream.next(), "second");
  while (server.event_streams() == 0) std::this_thread::sleep_for(milliseconds(1));
  server.send_event("news", "third");
  EXPECT_EQ(stream.next(), "event: news");
  EXPECT_EQ(stream.next(), "data: third");
}

TEST(LineStream, EndsWhenItIsClosed) {
  const Server server({}, events);
  LineStream stream(at(server), "/events", "", seconds(20));
  EXPECT_EQ(stream.next(), "first");
  EXPECT_EQ(stream.next(), "second");
  std::thread closer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stream.close();
  });
  EXPECT_EQ(stream.next(), std::nullopt);
  closer.join();
}

TEST(LineStream, NeedsAGoodAnswer) {
  const Server server({}, events);
  EXPECT_THROW(LineStream(at(server), "/nothing", "", seconds(20)), ConnectionError);
}

}  // namespace
}  // namespace tessera::http
