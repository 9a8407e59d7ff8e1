// What goes to MLflow. tests/cli/mlflow_test.cc runs with a real server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <future>
#include <thread>

#include "base/error.h"
#include "monitor/mlflow/client.h"
#include "monitor/mlflow/http.h"
#include "monitor/mlflow/names.h"

namespace tessera::monitor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MlflowNames, AreTakenByTheServer) {
  EXPECT_EQ(mlflow_key("training_loss"), "training_loss");
  EXPECT_EQ(mlflow_key("val/prec@1"), "val/prec_at_1");
  EXPECT_EQ(mlflow_key("lr/(head|norm)/.*"), "lr/_head_norm_/._");
  EXPECT_EQ(mlflow_key("lr/."), "lr/_");
  EXPECT_EQ(mlflow_key("a//../b/"), "a/_/__/b/_");
  EXPECT_EQ(mlflow_key(""), "_");
  EXPECT_EQ(mlflow_key("größe"), "gr____e");
  EXPECT_EQ(mlflow_key(std::string(249, 'a') + "/b").size(), 250u);
  EXPECT_EQ(mlflow_key(std::string(249, 'a') + "/b").back(), '_');
}

TEST(MlflowNames, TextsEndBetweenCharacters) {
  EXPECT_EQ(mlflow_text("größe", 6), "größ");
  EXPECT_EQ(mlflow_text("größe", 5), "grö");
  EXPECT_EQ(mlflow_text("größe", 10), "größe");
}

// Answers one request, and gives what it was.
class OneReply {
 public:
  explicit OneReply(std::string reply) {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listening_, 1), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
    request_ = std::async(std::launch::async, [this, text = std::move(reply)] { return serve(text); });
  }
  ~OneReply() { ::close(listening_); }
  const std::string& url() const { return url_; }
  std::string request() { return request_.get(); }

 private:
  std::string serve(const std::string& reply) const {
    const int connection = ::accept(listening_, nullptr, nullptr);
    std::string text;
    std::array<char, 4096> part{};
    const auto whole = [&] {
      const size_t end = text.find("\r\n\r\n"), length = text.find("Content-Length: ");
      if (end == std::string::npos) return false;
      return length == std::string::npos || text.size() >= end + 4 + std::stoul(text.substr(length + 16));
    };
    while (!whole()) {
      const ssize_t size = ::read(connection, part.data(), part.size());
      if (size <= 0) break;
      text.append(part.data(), static_cast<size_t>(size));
    }
    EXPECT_EQ(::write(connection, reply.data(), reply.size()), static_cast<ssize_t>(reply.size()));
    ::close(connection);
    return text;
  }

  int listening_ = -1;
  std::string url_;
  std::future<std::string> request_;
};

std::string reply_of(const std::string& status, const std::string& body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     status, body.size(), body);
}

TEST(Http, SendsBodyAndCredentials) {
  ::setenv("no_proxy", "127.0.0.1", 1);
  HttpOptions token;
  token.token = "the-token";
  OneReply first(reply_of("200 OK", "{\"a\": 1}"));
  const HttpReply reply = Http(token).request(first.url() + "/x?y=1", "{\"b\": 2}");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "{\"a\": 1}");
  const std::string request = first.request();
  EXPECT_THAT(request, HasSubstr("POST /x?y=1 HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Authorization: Bearer the-token\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\n\r\n{\"b\": 2}"));

  HttpOptions user;
  user.user = "me", user.password = "secret", user.token = "the-token";
  OneReply second(reply_of("200 OK", "{}"));
  Http(user).request(second.url(), "");
  const std::string get = second.request();
  EXPECT_THAT(get, HasSubstr("GET / HTTP/1.1\r\n"));
  EXPECT_THAT(get, HasSubstr("Authorization: Basic bWU6c2VjcmV0\r\n"));
}

TEST(Http, RedirectsAreNotFollowed) {
  OneReply server("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(Http({}).request(server.url(), "").status, 302);
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Mlflow, WhatTheServerRefusesIsSaidWithoutSecrets) {
  OneReply server(
      reply_of("400 Bad Request", "{\"error_code\": \"INVALID_PARAMETER_VALUE\", \"message\": \"no such\\nthing\"}"));
  MlflowServer of{server.url(), {}};
  of.http.token = "the-token";
  EXPECT_EQ(refusal([&] { MlflowClient(of).log_params("run", {{"a", "1"}}); }), "the server says 400: no such\\nthing");
  OneReply other(reply_of("401 Unauthorized", "You are not authenticated"));
  of.uri = other.url();
  const std::string said = refusal([&] { MlflowClient(of).find_run("run"); });
  EXPECT_THAT(said, HasSubstr("401"));
  EXPECT_THAT(said, Not(HasSubstr("the-token")));
}

TEST(Mlflow, TheEnvironmentNamesTheServer) {
  ::setenv("MLFLOW_TRACKING_URI", "https://host:5000/path/", 1);
  ::setenv("MLFLOW_TRACKING_USERNAME", "me", 1);
  ::setenv("MLFLOW_TRACKING_INSECURE_TLS", "true", 1);
  ::setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "7", 1);
  const MlflowServer server = mlflow_server();
  EXPECT_EQ(server.uri, "https://host:5000/path");
  EXPECT_EQ(server.http.user, "me");
  EXPECT_FALSE(server.http.verify);
  EXPECT_EQ(server.http.timeout, std::chrono::seconds(7));
  ::setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db", 1);
  EXPECT_THAT(refusal([] { mlflow_server(); }), HasSubstr("names no server"));
  for (const char* name : {"URI", "USERNAME", "INSECURE_TLS"}) ::unsetenv(fmt::format("MLFLOW_TRACKING_{}", name).c_str());
  ::unsetenv("MLFLOW_HTTP_REQUEST_TIMEOUT");
}

}  // namespace
}  // namespace tessera::monitor
