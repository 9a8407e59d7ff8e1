// What goes to MLflow. tests/cli/monitoring/mlflow_test.cc runs with a real server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/text/json.h"
#include "monitor/mlflow/client.h"
#include "monitor/mlflow/names.h"
#include "support/one_reply.h"

namespace tessera::monitor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::OneReply;
using testing::reply_of;

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

TEST(Mlflow, AnswersThatNoServerGivesAreErrors) {
  const auto points = [](const char* text) { return mlflow_points(read_json(text).value); };
  const std::map<int64_t, double> wanted = {{0, 1}, {12, 1.5}};
  EXPECT_EQ(points(R"({"metrics": [{"value": 1.5, "step": "12"}, {"value": "1"}]})").points, wanted);
  const std::string no_server = "what answers at MLFLOW_TRACKING_URI is no MLflow server";
  for (const char* text :
       {"[]", R"({"metrics": [{"value": 1, "step": 1e300}]})", R"({"metrics": [{"value": 1, "step": "1.5"}]})",
        R"({"metrics": [1]})", R"({"next_page_token": 1})"}) {
    EXPECT_EQ(refusal([&] { points(text); }), no_server) << text;
  }
  // It would be asked for ever.
  EXPECT_EQ(refusal([] { mlflow_points(read_json(R"({"next_page_token": "x"})").value, "x"); }), no_server);
  EXPECT_EQ(refusal([] { mlflow_run(read_json(R"({"run": {"info": []}})").value, "id"); }), no_server);
  EXPECT_EQ(refusal([] { mlflow_text_at(read_json("{}").value, nlohmann::json::json_pointer("/run/info/run_id")); }),
            no_server);
  EXPECT_FALSE(mlflow_has_none(404, read_json(R"({"error_code": 7})").value));
  EXPECT_TRUE(mlflow_has_none(404, read_json(R"({"error_code": "RESOURCE_DOES_NOT_EXIST"})").value));
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
