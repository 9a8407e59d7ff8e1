// The live page, inside the trainer and outside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "cli/board_page.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using testing::http;
using ::testing::Not;

TEST_F(Board, ShowsARunThatTrainsAndTellsIt) {
  // No checkpoint but the one that is asked for: the run's own would soon take its place.
  RunningProgram run(train({"--board=0", "total=1000000 steps", "checkpoint.every=1000000 steps"}), folder_.path());
  const Page page(run);
  ASSERT_NE(page.port, 0) << run.wait().err;
  EXPECT_EQ(http(page.port, "GET", "/api/runs").status, 401) << "no token";
  EXPECT_EQ(http(page.port, "GET", "/healthz").body, "ok\n");
  EXPECT_THAT(run.err(), Not(HasSubstr(page.token)));
  while (page.json("/api/runs")["runs"][0]["state"] != "running") std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Json answer = Json::parse(page.ask("/api/checkpoint", "POST").body);
  const fs::path path = folder_ / "runs/tiny" / answer["path"].get<std::string>();
  EXPECT_TRUE(fs::exists(path / "COMMIT")) << answer;
  while (page.json("/api/metrics")["metrics"]["training_loss"].is_null())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(page.json("/api/run")["checkpoints"].size(), 1u);
  EXPECT_THAT(page.ask("/metrics").body, HasSubstr("tessera_training_loss{run=\"tiny\""));
  EXPECT_THAT(page.json("/api/log")["lines"].dump(), HasSubstr("parameters"));
  const Json profile = Json::parse(page.ask("/api/profile?seconds=0.2", "POST").body);
  EXPECT_THAT(profile["table"].get<std::string>(), HasSubstr("(0.2 s, as asked)")) << profile;
  EXPECT_TRUE(fs::exists(folder_ / "runs/tiny" / profile["xplane"].get<std::string>())) << profile;
  EXPECT_EQ(page.ask("/api/stop", "POST").status, 200);
  const Outcome end = run.wait();
  EXPECT_EQ(end.exit, 130) << end.err;
}

TEST_F(Board, ThePageChangesNoNumber) {
  ASSERT_EQ(run_program(train({"--board=0"}), folder_.path()).exit, 0);
  const std::string weights = read_file(folder_ / "runs/tiny/checkpoints/step_000000006/state.safetensors");
  fs::remove_all(folder_ / "runs");
  ASSERT_EQ(run_program(train({}), folder_.path()).exit, 0);
  EXPECT_EQ(read_file(folder_ / "runs/tiny/checkpoints/step_000000006/state.safetensors"), weights);
}

TEST_F(Board, ServesDirectoriesUntilItIsStopped) {
  ASSERT_EQ(run_program(train({}), folder_.path()).exit, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
    const Page page(board);
    ASSERT_NE(page.port, 0) << board.wait().err;
    const Json runs = page.json("/api/runs")["runs"];
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0]["name"], "tiny");
    EXPECT_EQ(runs[0]["state"], "done");
    EXPECT_EQ(runs[0]["total"], 6);
    EXPECT_THAT(page.ask("/api/part?part=evaluations").body, HasSubstr("Evaluation: val"));
    EXPECT_THAT(page.ask("/api/stop", "POST").body, HasSubstr("not training now"));
    board.send(signal);
    EXPECT_EQ(board.wait().exit, 0);
  }
}

// 50 who listen and ask all the time, while the run goes on to its end.
TEST_F(Board, ManyReadersAreServedWhileItTrains) {
  RunningProgram run(train({"--board=0", "total=1000000 steps"}), folder_.path());
  const Page page(run);
  ASSERT_NE(page.port, 0) << run.wait().err;
  std::vector<std::thread> readers;
  std::atomic<int> good = 0;
  for (int i = 0; i < 50; ++i) {
    readers.emplace_back([&] {
      testing::HttpConnection events(page.port);
      events.send("GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + page.token + "\r\n\r\n");
      for (const char* target : {"/api/runs", "/api/metrics", "/api/log", "/metrics"}) good += page.ask(target).status == 200;
      good += events.read_until("event: change").ends_with("event: change");
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(good, 250);
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit, 75);
}

TEST_F(Board, TheNextFreePortIsSaid) {
  RunningProgram first({"board", ".", "--address", "0"}, folder_.path());
  const Page page(first);
  const std::string port = std::to_string(page.port);
  RunningProgram second({"board", ".", "--address", port}, folder_.path());
  const Page other(second);
  EXPECT_GT(other.port, page.port);
  EXPECT_THAT(second.err(), HasSubstr("port " + port + " is taken"));
}

TEST_F(Board, MistakesAreSaid) {
  for (const auto& [args, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{{{"board"}, "needs a directory"},
                                                                     {{"board", "none"}, "there is no directory `none`"},
                                                                     {{"board", "tiny.toml"}, "is a file"},
                                                                     {{"board", ".", "--address", "0.0.0.0:6070"}, "ssh -L"},
                                                                     {train({"--board=example.org"}), "ssh -L"}}) {
    const Outcome outcome = run_program(args, folder_.path());
    EXPECT_EQ(outcome.exit, 2) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  const Outcome token = run_program({"board", "."}, folder_.path(), {{"TESSERA_BOARD_TOKEN", "short"}});
  EXPECT_EQ(token.exit, 2);
  EXPECT_THAT(token.err, HasSubstr("TESSERA_BOARD_TOKEN"));
}

}  // namespace
}  // namespace tessera::cli
