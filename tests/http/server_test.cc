#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/http_client.h"

namespace tessera::http {
namespace {

using ::testing::HasSubstr;
using testing::http;
using testing::HttpAnswer;
using testing::HttpConnection;
using testing::read_answer;
using ::testing::StartsWith;

// Says what it was asked.
Response echo(const Request& request) {
  if (request.path == "/throw") throw std::runtime_error("broken");
  Response response;
  if (request.path == "/events") {
    response.events = true;
    response.body = "retry: 100\n\n";
    return response;
  }
  response.body = request.method + " " + request.path + " " + request.parameter("x").value_or("-") + " " + request.body;
  return response;
}

TEST(Server, AnswersRequestsOneAfterTheOther) {
  const Server server({}, echo);
  HttpConnection connection(server.port());
  for (int i = 0; i < 3; ++i) {
    connection.send("POST /a?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
    const HttpAnswer answer = read_answer(connection);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST /a 1 hello");
    EXPECT_EQ(answer.header("Content-Type"), "text/plain; charset=utf-8");
  }
}

TEST(Server, AnAnswerAtHandIsGivenWithoutTheHandler) {
  const Server server({}, echo, [](const Request& request) -> std::optional<Response> {
    if (request.path != "/kept") return std::nullopt;
    Response response;
    response.body = "kept";
    return response;
  });
  HttpConnection connection(server.port());
  for (const auto& [path, body] : {std::pair{"/kept", "kept"}, std::pair{"/a", "GET /a - "}, std::pair{"/kept", "kept"}}) {
    connection.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(read_answer(connection).body, body);
  }
}

TEST(Server, HeadHasTheLengthAndNoBody) {
  const Server server({}, echo);
  const HttpAnswer answer = http(server.port(), "HEAD", "/abc");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Content-Length"), std::to_string(std::string("GET /abc - ").size()));
  EXPECT_EQ(answer.body, "");
}

TEST(ServerDeathTest, AFailedCheckInAHandlerEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Server server({}, [](const Request&) -> Response { check_failed("handler.cc", 1, "false", "of the test"); });
        http(server.port(), "GET", "/");
      },
      "internal error at handler.cc:1: false: of the test");
}

TEST(Server, WhatTheHandlerThrowsIsAnAnswer) {
  const Server server({}, echo);
  EXPECT_EQ(http(server.port(), "GET", "/throw").status, 500);
  EXPECT_EQ(http(server.port(), "GET", "/fine").status, 200);
}

TEST(Server, RequestsThatAreTooLongOrNoneAreRefused) {
  const Server server({}, echo);
  EXPECT_EQ(http(server.port(), "GET", "/" + std::string(20000, 'a')).status, 431);
  EXPECT_EQ(http(server.port(), "GET", "/", "X: " + std::string(20000, 'a') + "\r\n").status, 431);
  EXPECT_EQ(http(server.port(), "POST", "/", "Content-Length: 1000000\r\n").status, 413);
  EXPECT_EQ(http(server.port(), "GET", "/%zz").status, 400);
  EXPECT_EQ(http(server.port(), "GET", "relative").status, 400);
  HttpConnection connection(server.port());
  connection.send("this is no HTTP\r\n\r\n");
  EXPECT_THAT(connection.read_all(), StartsWith("HTTP/1.1 400"));
}

TEST(Server, ARequestThatDoesNotComeWholeIsGivenUp) {
  ServerOptions options;
  options.idle = std::chrono::milliseconds(50);
  const Server server(options, echo);
  HttpConnection connection(server.port());
  connection.send("GET / HTTP/1.1\r\nHost:");
  EXPECT_EQ(connection.read_all(), "");
}

TEST(Server, EventsReachAllWhoListen) {
  Server server({}, echo);
  std::deque<HttpConnection> readers;
  for (int i = 0; i < 10; ++i) {
    readers.emplace_back(server.port()).send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(readers.back().read_until("\r\n\r\n"), HasSubstr("text/event-stream"));
    EXPECT_EQ(readers.back().read_until("\n\n"), "retry: 100\n\n");
  }
  server.send_event("change", "{\"a\":1}");
  server.send_event("change", "{}");
  for (HttpConnection& reader : readers) {
    EXPECT_EQ(reader.read_until("\n\n"), "event: change\ndata: {\"a\":1}\n\n");
    EXPECT_EQ(reader.read_until("\n\n"), "event: change\ndata: {}\n\n");
  }
  EXPECT_EQ(server.event_streams(), 10u);
}

TEST(Server, HeartbeatsFindReadersThatLeft) {
  ServerOptions options;
  options.heartbeat = std::chrono::milliseconds(5);
  const Server server(options, echo);
  {
    HttpConnection reader(server.port());
    reader.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(reader.read_until(": still here\n\n"), HasSubstr("retry"));
    EXPECT_EQ(server.event_streams(), 1u);
  }
  while (server.event_streams() > 0) std::this_thread::yield();
}

TEST(Server, SoManyListenersAndNoMore) {
  ServerOptions options;
  options.event_streams = 2;
  const Server server(options, echo);
  std::deque<HttpConnection> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back(server.port()).send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    readers.back().read_until("retry: 100\n\n");
  }
  EXPECT_EQ(http(server.port(), "GET", "/events").status, 503);
  EXPECT_EQ(http(server.port(), "GET", "/other").status, 200);
}

// One that reads nothing is cut off when its queue and the socket's buffers are full.
TEST(Server, AReaderOfEventsThatIsTooSlowIsCutOff) {
  Server server({}, echo);
  HttpConnection slow(server.port());
  slow.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  slow.read_until("retry: 100\n\n");
  const std::string much(1 << 16, 'x');
  while (server.event_streams() > 0) server.send_event("change", much);
  EXPECT_EQ(http(server.port(), "GET", "/other").status, 200);
}

TEST(Server, AnAnswerThatHangsHoldsNoOther) {
  std::latch go(1), hanging(1);
  const Server server({}, [&](const Request& request) {
    if (request.path == "/hang") hanging.count_down(), go.wait();
    return echo(request);
  });
  HttpConnection connection(server.port());
  connection.send("GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n");
  hanging.wait();
  EXPECT_EQ(http(server.port(), "GET", "/other").status, 200);
  go.count_down();
  EXPECT_EQ(read_answer(connection).status, 200);
}

// What the handler holds is not touched once it is left behind: its copy keeps it.
TEST(Server, AnAnswerThatHangsDoesNotHoldTheEnd) {
  const auto go = std::make_shared<std::latch>(1), hanging = std::make_shared<std::latch>(1),
             done = std::make_shared<std::latch>(1);
  {
    const Server server({}, [go, hanging, done](const Request& request) {
      hanging->count_down();
      go->wait();
      done->count_down();
      return echo(request);
    });
    HttpConnection(server.port()).send("GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n");
    hanging->wait();
  }
  go->count_down();
  done->wait();
}

TEST(Server, TheNextFreePortIsTaken) {
  const Server first({}, echo);
  ServerOptions options;
  options.port = first.port();
  EXPECT_THROW(Server(options, echo), Error);
  options.ports = 20;
  const Server second(options, echo);
  EXPECT_GT(second.port(), first.port());
  EXPECT_LT(second.port(), first.port() + 20);
  EXPECT_EQ(http(second.port(), "GET", "/").status, 200);
}

TEST(Server, AnAddressOfAnotherMachineIsRefused) {
  ServerOptions options;
  options.address = "192.0.2.1";
  EXPECT_THROW(Server(options, echo), Error);
  options.address = "nowhere";
  EXPECT_THROW(Server(options, echo), Error);
}

TEST(Server, AnswersManyAtOnce) {
  const Server server({}, echo);
  std::atomic<int> good = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 50; ++i) {
    readers.emplace_back([&] {
      for (int j = 0; j < 20; ++j) good += http(server.port(), "GET", "/a").status == 200;
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(good, 1000);
}

// Bytes of all kinds, in requests that are nearly good: an answer or an end, and the next reader is served.
TEST(Server, StaysWhateverItIsSent) {
  ServerOptions options;
  options.idle = std::chrono::milliseconds(100);
  const Server server(options, echo);
  std::mt19937 random(7);
  const std::string good =
      "POST /a?x=1 HTTP/1.1\r\nHost: localhost\r\nCookie: a=b\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
  for (int i = 0; i < 500; ++i) {
    std::string sent = good;
    for (unsigned j = random() % 8; j > 0; --j) {
      const size_t at = random() % sent.size();
      switch (random() % 3) {
        case 0: sent[at] = static_cast<char>(random()); break;
        case 1: sent.erase(at, random() % 8); break;
        default: sent.insert(at, std::string(random() % 300, static_cast<char>(random())));
      }
      if (sent.empty()) sent = "x";
    }
    HttpConnection connection(server.port());
    connection.send(sent);
    connection.read_until("\r\n\r\n");
  }
  EXPECT_EQ(http(server.port(), "GET", "/").status, 200);
}

}  // namespace
}  // namespace tessera::http
