#include "pages/board/routes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/rng.h"
#include "base/text/json.h"
#include "pages/board/prometheus.h"
#include "pages/report/made_run.h"
#include "support/paths.h"

namespace tessera::board {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::spill;
using testing::TempDir;

constexpr const char* kToken = "0123456789abcdef";

// Two finished runs behind a page.
class RoutesTest : public ::testing::Test {
 protected:
  RoutesTest() {
    testing::make_run(dir_.path(), "one", {"cat", "<b>dog</b>"});
    testing::make_run(dir_.path(), "two", {"cat", "dog"}, "3e-4");
    runs_->scan();
    for (const auto& run : runs_->all()) run->refresh();
  }
  static http::Request request(const std::string& method, const std::string& target, http::Pairs headers) {
    http::Request request;
    request.method = method;
    EXPECT_TRUE(http::parse_target(target, request));
    request.headers = std::move(headers);
    return request;
  }
  http::Response ask(const std::string& method, const std::string& target, http::Pairs headers) {
    return answers_.answer(request(method, target, std::move(headers)));
  }
  static http::Pairs known() { return {{"host", "localhost:6070"}, {"authorization", std::string("Bearer ") + kToken}}; }
  http::Response ask(const std::string& target) { return ask("GET", target, known()); }
  nlohmann::json json(const std::string& target) {
    const http::Response response = ask(target);
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body, target);
  }

  TempDir dir_;
  std::shared_ptr<Runs> runs_ = std::make_shared<Runs>(std::vector<std::string>{dir_.path()}, false);
  Answers answers_{runs_, Access(kToken)};
};

// Every address with every method, each with the token, without one, with a wrong one, and from elsewhere.
TEST_F(RoutesTest, OnlyWhoHasTheTokenIsAnswered) {
  for (const Route& route : routes()) {
    const std::string path = std::string(route.path) == "/assets/" ? "/assets/board.js" : route.path;
    for (const char* method : {"GET", "POST", "PUT", "DELETE", "OPTIONS"}) {
      const auto status = [&](http::Pairs headers) { return ask(method, path, std::move(headers)).status; };
      const std::string at = fmt::format("{} {}", method, path);
      const bool takes = std::string(method) == route.method;
      const int with = status(known());
      if (takes) {
        EXPECT_THAT(with, AllOf(Not(401), Not(403), Not(405), Not(421))) << at;
      } else {
        EXPECT_EQ(with, 405) << at;
      }
      const int without = route.open ? with : 401;
      EXPECT_EQ(status({{"host", "localhost:6070"}}), without) << at;
      EXPECT_EQ(status({{"host", "localhost:6070"}, {"authorization", "Bearer 0123456789abcdeF"}}), without) << at;
      EXPECT_EQ(status({{"host", "localhost:6070"}, {"cookie", "tessera_6070=0123"}}), without) << at;
      EXPECT_EQ(status({{"host", "localhost:6070"}, {"cookie", "tessera_6071=0123456789abcdef"}}), without) << at;
      EXPECT_EQ(status({{"host", "localhost:6070"}, {"cookie", "tessera_6070=0123456789abcdef"}}), with) << at;
      http::Pairs elsewhere = known();
      elsewhere[0].second = "evil.example:6070";
      EXPECT_EQ(status(elsewhere), 421) << at;
      http::Pairs foreign = known();
      foreign.emplace_back("origin", "http://evil.example");
      EXPECT_EQ(status(foreign), route.open ? with : 403) << at;
      http::Pairs own = known();
      own.emplace_back("origin", "http://localhost:6070");
      EXPECT_EQ(status(own), with) << at;
    }
  }
}

TEST_F(RoutesTest, EveryAddressIsInTheManual) {
  const std::string manual = testing::slurp(testing::source_path("docs/board.md"));
  for (const Route& route : routes()) {
    if (std::string(route.path) == "/assets/") continue;  // parts of the page
    const std::string row = fmt::format("\n| `{} {}", route.method, route.path);
    EXPECT_THAT(manual, ::testing::AnyOf(HasSubstr(row + "` |"), HasSubstr(row + "?")));
  }
}

// Addresses and headers with letters changed, left out, doubled and exchanged. Each has an answer; without the token it says nothing.
TEST_F(RoutesTest, OddRequestsHaveAnswers) {
  std::vector<std::string> targets = {"/?token=0123456789abcdef",
                                      "/assets/../board.js",
                                      "/api/metrics?run=one&keys=lr,val/loss&after=60&max=4",
                                      "/api/log?run=one&after=3",
                                      "/api/part?run=one%0Atwo&part=differences",
                                      "/api/part?run=one&part=evaluations",
                                      "/api/profile?run=one&seconds=1e1"};
  for (const Route& route : routes()) targets.push_back(fmt::format("{}?run=one", route.path));
  const std::string odd("\0\n\r%&=/?.,:-+;0e\xff", 17);
  Rng rng(22);
  const auto changed = [&](std::string text) {
    for (uint64_t n = rng.below(4); n > 0 && !text.empty(); --n) {
      const size_t at = rng.below(text.size());
      const std::string piece = text.substr(at, 1 + rng.below(8));
      switch (rng.below(4)) {
        case 0: text[at] = odd[rng.below(odd.size())]; break;
        case 1: text.erase(at, piece.size()); break;
        case 2: text.insert(at, piece); break;
        default: text.insert(rng.below(text.size()), std::string(1 + rng.below(40), odd[rng.below(odd.size())]));
      }
    }
    return text;
  };
  std::map<int, int> answers;
  for (int i = 0; i < 4000; ++i) {
    http::Request request;
    request.method = rng.below(3) == 0 ? "POST" : "GET";
    if (!http::parse_target(changed(targets[rng.below(targets.size())]), request)) continue;
    const bool token = rng.below(2) == 0;
    request.headers = {{"host", changed("localhost:6070")}, {"cookie", changed("tessera_6070=1; a=b")}};
    if (token) request.headers.emplace_back("authorization", std::string("Bearer ") + kToken);
    const bool in_address = request.parameter("token") == kToken;
    const http::Response response = answers_.answer(request);
    ++answers[response.status];
    EXPECT_THAT(response.status, ::testing::AnyOf(200, 303, 400, 401, 404, 405, 409, 421)) << request.path;
    if (!token && !in_address && request.path != "/healthz") {
      EXPECT_THAT(response.status, ::testing::AnyOf(401, 421)) << request.path;
      EXPECT_THAT(response.body, Not(HasSubstr("cat"))) << request.path;
    }
  }
  for (const int status : {200, 303, 400, 401, 404, 405, 409, 421}) EXPECT_GT(answers[status], 0) << status;
}

TEST_F(RoutesTest, AnotherAddressSaysNothing) {
  for (const char* path :
       {"/api", "/api/", "/api/runs/", "/etc/passwd", "/assets/../board.js", "/assets/", "/assets/x.js", "//"}) {
    EXPECT_EQ(ask(path).status, 404) << path;
    EXPECT_EQ(ask("GET", path, {{"host", "localhost:6070"}}).status, 401) << path;
  }
}

TEST_F(RoutesTest, TheTokenInTheAddressBecomesACookie) {
  const http::Response response = ask("GET", std::string("/?token=") + kToken, {{"host", "localhost:6070"}});
  EXPECT_EQ(response.status, 303);
  http::Request answered;
  answered.headers = response.headers;
  EXPECT_EQ(answered.header("Location"), "/");
  EXPECT_EQ(answered.header("Set-Cookie"), "tessera_6070=0123456789abcdef; HttpOnly; SameSite=Strict; Path=/");
  EXPECT_EQ(ask("GET", "/?token=wrong", {{"host", "localhost:6070"}}).status, 401);
}

TEST_F(RoutesTest, ThePageRunsNothingFromElsewhere) {
  const http::Response page = ask("/");
  EXPECT_THAT(page.body, HasSubstr("<script src=\"/assets/board.js\">"));
  http::Request answered;
  answered.headers = page.headers;
  EXPECT_THAT(*answered.header("Content-Security-Policy"),
              AllOf(HasSubstr("script-src 'self'"), Not(HasSubstr("unsafe-eval"))));
  for (const char* path : {"/", "/assets/board.js", "/assets/board.css", "/assets/dygraph.css"}) {
    EXPECT_THAT(ask(path).body, Not(HasSubstr("https://"))) << path;
  }
  EXPECT_THAT(ask("/assets/dygraph.js").body, HasSubstr("Dygraph"));
}

TEST_F(RoutesTest, RunsAndTheirFigures) {
  const nlohmann::json runs = json("/api/runs")["runs"];
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["name"], "one");
  EXPECT_EQ(runs[0]["state"], "done");
  const nlohmann::json all = json("/api/metrics?run=two")["metrics"];
  EXPECT_EQ(all["training_loss"]["step"].dump(), "[20,40,60,80,100]");
  const nlohmann::json some = json("/api/metrics?run=two&keys=val/loss,lr&after=60")["metrics"];
  EXPECT_EQ(some["val/loss"].dump(), R"({"step":[80,100],"value":[1.1,1.15]})");
  EXPECT_EQ(some.size(), 2u);
  EXPECT_EQ(json("/api/metrics?run=two&max=4")["metrics"]["lr"]["step"].size(), 2u) << "least and greatest";
}

// Until the next look; and only for who has the token.
TEST_F(RoutesTest, WhatOneReaderGotIsAtHandForTheNext) {
  const auto at_hand = [&](const std::string& target, http::Pairs headers = known(), const std::string& method = "GET") {
    return answers_.at_hand(request(method, target, std::move(headers)));
  };
  for (const std::string target : {"/api/runs", "/api/metrics?max=100&after=3", "/api/log?after=0"}) {
    EXPECT_FALSE(at_hand(target)) << target;
    const http::Response made = ask(target);
    const auto kept = at_hand(target);
    ASSERT_TRUE(kept) << target;
    EXPECT_EQ(kept->status, 200);
    EXPECT_EQ(kept->body, made.body);
    EXPECT_EQ(kept->headers, made.headers);
    EXPECT_FALSE(at_hand(target, {{"host", "localhost:6070"}})) << target;
    EXPECT_FALSE(at_hand(target, known(), "POST")) << target;
  }
  for (const std::string target : {"/metrics", "/healthz", "/api/run", "/api/metrics?after=x", "/"}) {
    ask(target);
    EXPECT_FALSE(at_hand(target)) << target;
  }
  answers_.looked();
  EXPECT_FALSE(at_hand("/api/runs"));
}

TEST_F(RoutesTest, WrongParametersAreSaid) {
  for (const auto& [target, status] : {std::pair{"/api/metrics?run=three", 404},
                                       {"/api/metrics?after=x", 400},
                                       {"/api/metrics?max=1", 400},
                                       {"/api/metrics?max=1000000", 400},
                                       {"/api/log?run=one&after=-1", 400},
                                       {"/api/part?run=one&part=none", 400},
                                       {"/api/part?run=one", 400},
                                       {"/api/part?run=one%0Athree&part=differences", 404},
                                       {"/api/run?run=..", 404}}) {
    const http::Response response = ask(target);
    EXPECT_EQ(response.status, status) << target;
    EXPECT_FALSE(response.body.empty());
  }
  for (const char* seconds : {"0", "-1", "x", "1e9", "nan"}) {
    EXPECT_EQ(ask("POST", fmt::format("/api/profile?run=one&seconds={}", seconds), known()).status, 400) << seconds;
  }
}

TEST_F(RoutesTest, AFinishedRunCannotBeTold) {
  for (const char* what : {"checkpoint", "stop", "profile"}) {
    const http::Response response = ask("POST", fmt::format("/api/{}?run=one", what), known());
    EXPECT_EQ(response.status, 409);
    EXPECT_THAT(response.body, HasSubstr("not training now")) << what;
  }
}

TEST_F(RoutesTest, DetailsHaveVerdictRecipeAndCheckpoints) {
  const std::string checkpoint = dir_ / "one/checkpoints/step_000000100";
  std::filesystem::create_directories(checkpoint);
  std::filesystem::create_directories(dir_ / "one/checkpoints/step_000000200");  // not committed
  spill(checkpoint + "/COMMIT", "{}");
  const nlohmann::json details = json("/api/run?run=one");
  EXPECT_THAT(details["remarks"][0]["text"].get<std::string>(), HasSubstr("100 steps"));
  EXPECT_THAT(details["recipe"].get<std::string>(), HasSubstr("flip_lr"));
  EXPECT_EQ(details["facts"]["state"], "done");
  EXPECT_EQ(details["version"], json("/api/runs")["runs"][0]["version"]);
  ASSERT_EQ(details["checkpoints"].size(), 1u);
  EXPECT_EQ(details["checkpoints"][0]["step"], 100);
  EXPECT_EQ(details["checkpoints"][0]["bytes"], 2);
  EXPECT_TRUE(details["compilations"].is_array());
}

TEST_F(RoutesTest, DetailsHaveAlertsOfEachKind) {
  for (const std::string kind : {"loss_spike", "images", "input", "process", "throughput", "memory", "chance"}) {
    testing::make_run(dir_.path(), kind, {"cat", "dog"});
    std::filesystem::remove(dir_ / (kind + "/metrics.jsonl"));
    monitor::MetricWriter writer(dir_ / kind);
    for (const monitor::MetricRow& row : testing::alarming_rows(kind)) {
      std::vector<monitor::Metric> metrics;
      for (const auto& [name, value] : row.values) metrics.push_back({name, value});
      writer.write(row.step, metrics);
    }
    writer.flush();
    runs_->scan();
    std::vector<std::string> topics;
    const nlohmann::json details = json("/api/run?run=" + kind);
    for (const nlohmann::json& remark : details["remarks"]) topics.push_back(remark["topic"]);
    EXPECT_THAT(topics, ::testing::Contains(kind));
  }
}

TEST_F(RoutesTest, PartsAreThoseOfTheReport) {
  const http::Response evaluations = ask("/api/part?run=one&part=evaluations");
  EXPECT_EQ(evaluations.type, "text/html; charset=utf-8");
  EXPECT_THAT(evaluations.body, AllOf(HasSubstr("taken for"), HasSubstr("&lt;b&gt;dog"), Not(HasSubstr("<b>dog"))));
  EXPECT_THAT(ask("/api/part?run=one&part=images").body, HasSubstr("data:image/png;base64,"));
  EXPECT_THAT(ask("/api/part?run=one&part=facts").body, HasSubstr("tessera train x.toml"));
  EXPECT_THAT(ask("/api/part?run=one%0Atwo&part=differences").body, HasSubstr("optimizer.lr"));
}

// What is kept is made anew when the run has news.
TEST_F(RoutesTest, PartsFollowTheRun) {
  EXPECT_THAT(ask("/api/part?run=one&part=facts").body, HasSubstr("tessera train x.toml"));
  train::RunFacts facts = testing::facts_of("done");
  facts.command = "tessera train other.toml";
  spill(dir_ / "one/run.json", train::to_json(facts) + " ");
  EXPECT_THAT(ask("/api/part?run=one&part=facts").body, HasSubstr("tessera train x.toml"));
  runs_->find("one")->refresh();
  EXPECT_THAT(ask("/api/part?run=one&part=facts").body, HasSubstr("tessera train other.toml"));
}

TEST_F(RoutesTest, TheLogComesInPieces) {
  const std::string log = dir_ / "one/log.txt";
  EXPECT_EQ(json("/api/log?run=one")["next"], 0);
  spill(log, "first\nsecond\nthi");
  nlohmann::json got = json("/api/log?run=one");
  EXPECT_EQ(got["lines"].dump(), R"(["first","second"])");
  spill(log, "first\nsecond\nthird \xff\n");
  got = json("/api/log?run=one&after=" + got["next"].dump());
  EXPECT_EQ(got["lines"].dump(), "[\"third \xEF\xBF\xBD\"]");
  spill(log, "new\n");
  EXPECT_EQ(json("/api/log?run=one&after=" + got["next"].dump())["lines"].dump(), R"(["new"])") << "another file";
  spill(log, std::string(300 << 10, 'a') + "\n" + std::string(300 << 10, 'b') + "\nlast\n");
  EXPECT_EQ(json("/api/log?run=one")["lines"].dump(), R"(["last"])") << "the last 256 KiB of it";
}

// Two processes. The second sent nothing for the last 40 seconds.
monitor::HostFigures two_processes() {
  monitor::HostFigures all{1000, 5, {{0, "host-a", 90, 999}, {1, "host-\"b\"", 88, 960}}};
  all.processes[0].input_wait = 0.02, all.processes[1].input_wait = 0.41;
  all.processes[0].resident = 1e6;
  all.processes[1].hangs = "no batch for 12 s";
  return all;
}

TEST_F(RoutesTest, ProcessesAndTheSlowestOfThem) {
  const nlohmann::json alone = json("/api/hosts?run=one");
  EXPECT_TRUE(alone["processes"].empty());
  EXPECT_TRUE(alone["slowest"].is_null());
  spill(dir_ / "one/hosts.json", monitor::to_json(two_processes()));
  const auto run = runs_->find("one");
  EXPECT_TRUE(run->refresh().metrics) << "readers get the news";
  EXPECT_FALSE(run->refresh().metrics);
  const nlohmann::json hosts = json("/api/hosts?run=one");
  ASSERT_EQ(hosts["processes"].size(), 2u);
  EXPECT_EQ(hosts["processes"][0]["host"], "host-a");
  EXPECT_EQ(hosts["processes"][0]["age"], 1);
  EXPECT_EQ(hosts["processes"][0]["resident"], 1e6);
  EXPECT_TRUE(hosts["processes"][0]["device_peak"].is_null());
  EXPECT_EQ(hosts["processes"][1]["step"], 88);
  EXPECT_EQ(hosts["slowest"]["process"], 1);
  EXPECT_EQ(hosts["slowest"]["holds_up"], true);
  EXPECT_EQ(hosts["slowest"]["text"], "process 1 on host-\"b\" waits 41 % of the time for its input, the others 2 %");
  EXPECT_EQ(hosts["hanging"].dump(), R"(["process 1 on host-\"b\" hangs: no batch for 12 s"])");
  EXPECT_EQ(hosts["silent"].dump(), R"(["process 1 on host-\"b\" was last heard of 40 s ago"])");
  EXPECT_THAT(ask("/metrics").body,
              AllOf(HasSubstr("# TYPE tessera_process_input_wait gauge\n"
                              "tessera_process_input_wait{run=\"one\",process=\"0\",host=\"host-a\"} 0.02\n"
                              "tessera_process_input_wait{run=\"one\",process=\"1\",host=\"host-\\\"b\\\"\"} 0.41\n"),
                    HasSubstr("tessera_process_step{run=\"one\",process=\"1\",host=\"host-\\\"b\\\"\"} 88\n")));
  EXPECT_EQ(ask("/api/hosts?run=three").status, 404);
}

TEST_F(RoutesTest, AProcessThatComputesSlowlyIsNamed) {
  monitor::HostFigures all = two_processes();
  all.processes[1].input_wait = 0.02;
  all.processes[0].peer_wait = 0.03, all.processes[1].peer_wait = 0.37;
  spill(dir_ / "one/hosts.json", monitor::to_json(all));
  runs_->find("one")->refresh();
  const nlohmann::json hosts = json("/api/hosts?run=one");
  EXPECT_EQ(hosts["processes"][1]["peer_wait"], 0.37);
  EXPECT_EQ(hosts["slowest"]["process"], 0);
  EXPECT_EQ(hosts["slowest"]["holds_up"], true);
  EXPECT_EQ(hosts["slowest"]["text"], "process 0 on host-a waits 3 % of the time for other processes, the others 37 %");
  EXPECT_THAT(ask("/metrics").body, HasSubstr("tessera_process_peer_wait{run=\"one\",process=\"0\",host=\"host-a\"} 0.03\n"));
}

TEST_F(RoutesTest, ADamagedFileOfProcessesIsAProblem) {
  spill(dir_ / "one/hosts.json", "{");
  const auto run = runs_->find("one");
  for (int look = 0; look < 2; ++look) {
    run->refresh();
    EXPECT_THAT(run->summary()["problems"].dump(), AllOf(HasSubstr("one/hosts.json"), HasSubstr("JSON"))) << look;
  }
  std::filesystem::remove(dir_ / "one/hosts.json");
  run->refresh();
  EXPECT_TRUE(run->summary()["problems"].empty());
}

TEST_F(RoutesTest, PrometheusGetsTheNewest) {
  const std::string text = ask("/metrics").body;
  EXPECT_THAT(text, HasSubstr("# HELP tessera_val_prec_1 The newest val/prec@1 of a run (docs/monitoring.md).\n"
                              "# TYPE tessera_val_prec_1 gauge\ntessera_val_prec_1{run=\"one\",metric=\"val/prec@1\"} 0.74\n"
                              "tessera_val_prec_1{run=\"two\",metric=\"val/prec@1\"} 0.74\n"));
  EXPECT_THAT(text, HasSubstr("tessera_run_state{run=\"two\",state=\"done\"} 1\n"));
  const auto count = [&](const std::string& what) {
    size_t times = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
    return times;
  };
  EXPECT_EQ(count("# HELP "), count("# TYPE ")) << "one for each family";
}

TEST_F(RoutesTest, PrometheusReadsOddNames) {
  testing::make_run(dir_.path(), R"(a"b\c)", {"cat", "dog"});
  runs_->scan();
  EXPECT_THAT(ask("/metrics").body, HasSubstr(R"(tessera_step{run="a\"b\\c"} 0)"
                                              "\n"));
}

TEST(BoardToken, IsGivenOrDrawn) {
  ::unsetenv("TESSERA_BOARD_TOKEN");
  const std::string drawn = board_token();
  EXPECT_EQ(drawn.size(), 32u);
  EXPECT_NE(drawn, board_token());
  ::setenv("TESSERA_BOARD_TOKEN", "my-token-of-16_chars", 1);
  EXPECT_EQ(board_token(), "my-token-of-16_chars");
  for (const char* bad : {"short", "has spaces in between it", "has;a;semicolon;in;it"}) {
    ::setenv("TESSERA_BOARD_TOKEN", bad, 1);
    EXPECT_THROW(board_token(), Error) << bad;
  }
  ::unsetenv("TESSERA_BOARD_TOKEN");
}

}  // namespace
}  // namespace tessera::board
